"""The file systems behind URLs, by way of fsspec: which URL okl takes, and one file system a process and account.

Credentials come from the environment or from fsspec's own configuration only: a URL that carries them is refused, as
URLs are stored with runs and shown in logs. This is the only module that imports fsspec.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from okl.errors import ConfigError
from okl.store.trying import first_line, without_secrets

EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "abfs": "abfs", "abfss": "abfs", "az": "abfs"}


def check_url(url: str) -> None:
    """Refuse a URL that carries credentials, chains others, or is of a kind for which no package is installed.

    Raises
    ------
    ConfigError : the URL, without what may be secret, and why
    """
    kind, _, rest = url.partition("://")
    shown = without_secrets(url)
    if "::" in url:
        raise ConfigError(f"{shown} chains URLs; okl takes one, such as s3://BUCKET/FOLDER.")
    # abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/... names a container, and no user
    if "@" in rest.partition("/")[0] and not (EXTRAS.get(kind.lower()) == "abfs" and ":" not in rest.partition("@")[0]):
        raise ConfigError(f"{shown} was given with a user or password; okl keeps and shows URLs. Use the environment.")
    if shown != url:
        raise ConfigError(
            f"{shown} was given with a query, which may hold a token; okl keeps URLs. Use the environment."
        )
    file_system(url)


def file_system(url: str) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the path in its words; ConfigError for a kind that nobody here knows."""
    kind = url.partition("://")[0].lower()
    try:
        made = _class_of(kind)
        fs = _file_system(made, kind, tuple(sorted(made._get_kwargs_from_urls(url).items())))
    except ImportError as error:
        what = f"pip install 'okl[{EXTRAS[kind]}]'" if kind in EXTRAS else first_line(error)
        raise ConfigError(f"{kind}:// takes a package that is not installed: {what}.") from None
    return fs, made._strip_protocol(url)


@cache
def _class_of(kind: str) -> Any:
    import fsspec

    try:
        return fsspec.get_filesystem_class(kind)
    except ValueError:
        raise ConfigError(f"{kind}:// is not known; okl takes s3://, gs://, abfs:// and what fsspec knows.") from None


@cache
def _file_system(made: Any, kind: str, account: tuple[tuple[str, Any], ...]) -> Any:
    from fsspec.config import conf

    options = dict(account)
    # retries are okl's, the same for every store: three layers of them would keep one waiting for minutes
    if EXTRAS.get(kind) == "s3":
        options["config_kwargs"] = {"retries": {"total_max_attempts": 1}} | conf.get("s3", {}).get("config_kwargs", {})
    fs = made(skip_instance_cache=True, **options)
    # threads share it: a listing that one of them made a moment ago would hide from another what is there by now
    fs.dircache.use_listings_cache = False
    if EXTRAS.get(kind) == "s3":
        fs.retries = 1
    return fs
