"""Certificates for connections to a Dask scheduler: whoever has none of the same authority is refused, both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from distributed import Security

from okl.errors import ConfigError

FILES = ("ca.pem", "cert.pem", "key.pem")
ROLES = ("client", "scheduler", "worker")
_FOLDER = "with ca.pem, cert.pem and key.pem, as infra/tls/make.py writes one for each role"


def security_from(folder: str | Path | None) -> Any:
    """What Dask needs for mutual TLS from a folder as infra/tls/make.py writes it; None: Dask's own configuration.

    Parameters
    ----------
    folder : with ca.pem (the authority that both sides trust), cert.pem and key.pem (what this side shows)

    Raises
    ------
    ConfigError : a file is missing, cannot be read, or is no certificate or key, or the key is of another certificate
    """
    if folder is None:
        return Security()
    authority, certificate, key = (str(Path(folder) / name) for name in FILES)
    for path in (authority, certificate, key):
        _check_readable(path)
    shown = {f"tls_{role}_cert": certificate for role in ROLES} | {f"tls_{role}_key": key for role in ROLES}
    security = Security(tls_ca_file=authority, **shown, require_encryption=True)
    try:
        security.get_connection_args("client")  # reads the files, and matches the key with its certificate
    except OSError as error:
        raise ConfigError(
            f"The certificates in {folder} cannot be used ({getattr(error, 'reason', None) or error}); --tls takes a "
            f"folder {_FOLDER}."
        ) from None
    return security


def check_encrypted(address: str, security: Any, folder: str | Path | None) -> None:
    """Raise ConfigError for certificates without an encrypted address, or such an address without certificates.

    Parameters
    ----------
    security : as `security_from` read it from the folder, or from Dask's own configuration
    """
    if not address.startswith("tls://"):
        if folder is not None:
            raise ConfigError(
                f"scheduler = {address!r} is an address without encryption, but tls = {str(folder)!r} is given: "
                "a scheduler with certificates has an address like tls://HOST:8786."
            )
    elif security.get_connection_args("client")["ssl_context"] is None:
        raise ConfigError(f"The scheduler at {address} wants a certificate: give --tls FOLDER, {_FOLDER}.")


def refusal(address: str, folder: str | Path | None) -> str:
    """What to do when a scheduler hung up, for the end of a sentence."""
    if address.startswith("tls://"):
        return f"Check that the certificate in {folder} is of the scheduler's own authority and has not expired."
    return "Check the address, and that the scheduler runs."


def _check_readable(path: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); --tls takes a folder {_FOLDER}.") from None
