"""Locations of data, models and runs: local paths, object-store URLs, retries, cached copies and digests."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import random
import re
import stat
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from glob import has_magic
from pathlib import Path
from shlex import quote
from threading import Lock
from typing import Any, TypeVar

from okl.foundation.errors import ConfigError, DataError, LocationError, OklError, first_line
from okl.foundation.validation import bytes_from_environment

# okl's home folder: OKL_HOME, or .okl in the user's home.

LONGEST_STEM = 60  # of a file's name in the name of its run
DATED = re.compile(r"-\d{8}-\d{6}-\d+(-\d+)?")  # what a run's name ends with


def okl_home() -> Path:
    """Return okl's home folder, which only its owner may enter, made if necessary; or raise ConfigError."""
    folder = Path(os.environ.get("OKL_HOME") or Path.home() / ".okl").expanduser().absolute()
    try:
        make_folders(folder)
        status = folder.stat()
        # a folder of another user, such as a volume of a container, is left as its administrator made it, and so is
        # one where everybody may write, such as /tmp
        if status.st_mode & 0o077 and status.st_uid == os.getuid() and not status.st_mode & stat.S_ISVTX:
            with suppress(OSError):  # a file system that is read-only, or has no such permissions
                folder.chmod(0o700)
    except OSError as error:
        raise ConfigError(
            f"okl's home folder {folder} cannot be created ({error.strerror}). Set OKL_HOME to a writable folder."
        ) from None
    return folder


# Other users of the machine: what okl writes is for its user alone, unless OKL_UMASK grants more.

UMASK = "OKL_UMASK"


def private_umask() -> int:
    """Return the permissions that okl's files lack: OKL_UMASK, or 077; ConfigError if it is not octal up to 077."""
    text = os.environ.get(UMASK, "077")
    if not re.fullmatch("0*[0-7]{1,2}", text):
        raise ConfigError(
            f"{UMASK} = {text!r}; expected an octal number up to 077, such as 027 for a group of readers."
        )
    return int(text, 8)


def keep_private() -> None:
    """Set the umask of this process and its children, so that only their user reads their files; not for a library."""
    os.umask(private_umask())


def make_folders(folder: Path) -> None:
    """Make a folder and the missing ones above it, for this user only, also where a library sets no umask."""
    for each in (*reversed(folder.parents), folder):
        if not each.is_dir():
            try:
                each.mkdir(0o777 & ~private_umask(), exist_ok=True)
            except FileExistsError:  # as the system says of a folder in a file
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(each)) from None


def write_private(path: Path, text: str) -> None:
    """Write a secret, readable by this user only from the first byte on; a file that is there is replaced."""
    temporary_path = path.with_name(f".{path.name}.{os.getpid()}")
    temporary_path.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(text)
        temporary_path.replace(path)
    finally:
        temporary_path.unlink(missing_ok=True)


def name_after(location: str) -> str:
    """Return a run name for data: the file or folder name without suffixes; for a glob, that of its folder.

    Other characters than those of names (see `okl.foundation.validation.NAME`) become dashes.

    >>> name_after("data/<b>my rows.csv")
    'b-my-rows'
    >>> [name_after(place) for place in ("data/churn.csv.gz", "s3://bucket/churn", "churn/part-*.parquet", "*.csv")]
    ['churn', 'churn', 'churn', 'run']
    """
    stems = (part.split(".")[0] for part in reversed(Path(location).parts) if not has_magic(part))
    names = (re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("._-")[:LONGEST_STEM] for stem in stems)
    return next(filter(None, names), "run")


COMPARED = "compare-"
"""Prefix of the folders of comparisons."""


def runs_named(name: str) -> list[Path]:
    """Return the complete runs in okl's home of a name, newest first; comparisons only if no other run has it.

    If some runs were given the name, those that are only named by their data, as they were given none, are left out.
    """
    if not name:
        return []
    named = {folder.name.removeprefix(name): folder for folder in _runs() if folder.name.startswith(name)}
    found = [named[rest] for rest in sorted(named, reverse=True) if not rest or DATED.fullmatch(rest)]
    if found or name.startswith(COMPARED):
        return [run for run in found if len(found) > 1 and _given_name(run) == name] or found
    return runs_named(COMPARED + name)


def _given_name(run: Path) -> str | None:
    """Return the name that a run was given, without its date; None without, or without a readable result."""
    try:
        name: str | None = json.loads((run / "result.json").read_text(encoding="utf-8"))["settings"]["name"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return name


def close_to(name: str, others: Iterable[str] = ()) -> str:
    """Return a question with similar names among the runs in okl's home and `others`; "" if there are none.

    Runs are known by their whole names and by those that they were given, without the date.
    """
    runs = [folder.name for folder in _runs()]
    candidates = dict.fromkeys([*others, *(DATED.sub("", run) for run in runs), *runs])
    close = get_close_matches(name, candidates, 3) if name else []
    return f"Did you mean {' or '.join(close)}?" if close else ""


def _runs() -> list[Path]:
    runs = Path(os.environ.get("OKL_HOME") or Path.home() / ".okl").expanduser().absolute() / "runs"
    return [folder for folder in runs.iterdir() if folder.name[:1] != "."] if runs.is_dir() else []


def typed_model(result: Mapping[str, Any]) -> str:
    """Return the model of a run's result as a command takes it: the run's name in okl's home, otherwise its path."""
    folder = Path(result.get("run") or ".")
    return quote(folder.name if folder in runs_named(folder.name) else str(result.get("model")))


# Retries of object-store calls.
#
# A time-out, a broken connection, a server that is busy or at fault (HTTP 408, 429, 5xx) may pass; a refusal or a
# missing file will not, and is requested once.

Answer = TypeVar("Answer")

ATTEMPTS = 7
FIRST_WAIT_SECONDS = 0.1  # doubled each time: 6.3 s in all, give or take a half
PASSING = {
    *(errno.EAGAIN, errno.EBUSY, errno.EIO, errno.EPIPE, errno.ETIMEDOUT, errno.ECONNABORTED, errno.ECONNREFUSED),
    *(errno.ECONNRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET),
    getattr(errno, "EREMOTEIO", errno.EIO),
}
FINAL = (PermissionError, FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, OklError)
PASSING_NAMES = re.compile(r"Timeout|Connection|HTTPClientError|IncompleteRead|ClientPayload|ServerDisconnected|Retr")
PASSING_STATUS = (408, 425, 429)
SECRETS = re.compile(r"(?<=://)[^/@\s]*:[^/@\s]*@|(?<=://)[^/@\s]+@(?!\w+\.dfs\.)|(?<=\w)\?[^\s'\"]*=[^\s'\"]*")


def with_retries(request: Callable[[], Answer], failing: str) -> Answer:
    """Call a function, repeating it with growing waits while its failures may pass; return its result.

    Raises LocationError : it failed for good, or in each attempt; failing : start of the message, such as "X cannot be
        read"
    """
    for attempt in range(ATTEMPTS):
        try:
            return request()
        except OklError:
            raise
        except Exception as error:  # of whatever kind: each store has a family of its own
            if not may_be_transient(error):
                raise explained(error, failing) from None
            last = error
        if attempt < ATTEMPTS - 1:
            # not in step with the others who failed at this moment; it changes when, and never what
            time.sleep(FIRST_WAIT_SECONDS * 2**attempt * random.uniform(0.5, 1.5))
    raise explained(last, failing, f" in {ATTEMPTS} attempts") from None


def may_be_transient(error: BaseException) -> bool:
    """Return whether a retry may help, by the error's kind, its number, or the HTTP status of it or its cause."""
    for cause in _chain(error):
        if isinstance(cause, FINAL) or "Credential" in type(cause).__name__:
            return False
        status = _status(cause)
        if status is not None:
            return status >= 500 or status in PASSING_STATUS
        if isinstance(cause, TimeoutError | ConnectionError):
            return True
        if isinstance(cause, OSError) and cause.errno in PASSING:
            return True
        if any(PASSING_NAMES.search(kind.__name__) for kind in type(cause).__mro__):
            return True
    return False


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an error or of its causes, if any."""
    return next((status for cause in _chain(error) if (status := _status(cause)) is not None), None)


def explained(error: BaseException, failing: str, how_often: str = "") -> LocationError:
    """Return the error for a permanent failure."""
    names = " ".join(type(cause).__name__ for cause in _chain(error))
    why = first_line(error)
    if "Credential" in names:
        why, advice = "no credentials were found", "Set them in the environment or in fsspec's configuration."
    elif isinstance(error, PermissionError) or _status(error) in (401, 403):
        why, advice = f"permission was refused ({why})", "Check the credentials and their permissions."
    elif isinstance(error, FileNotFoundError):
        why, advice = f"it does not exist ({why})", "Check the bucket and the name."
        why = why if str(error) else "it does not exist"
    elif may_be_transient(error):
        advice = "Try again when the storage is available."
    else:
        advice = "Check the URL and the settings of the storage."
    failure = LocationError(without_secrets(f"{failing}{how_often}: {why}. {advice}"))
    failure.passing = may_be_transient(error)
    return failure


def without_secrets(text: str) -> str:
    """Return a text without users, passwords and queries in its URLs.

    >>> without_secrets("at https://me:word@host/a?token=1 and s3://bucket/part-?.csv")
    'at https://host/a and s3://bucket/part-?.csv'
    """
    return SECRETS.sub("", text)


def _chain(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of an error, by the conventions of each library."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        code = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return code if isinstance(code, int) else None
    for owner in (error, response):
        for name in ("status", "status_code", "code"):
            code = getattr(owner, name, None)
            if isinstance(code, int) and 100 <= code < 600:
                return code
    return None


# File systems behind URLs, by fsspec.
#
# Credentials come from the environment or from fsspec's own configuration only: a URL that carries them is refused,
# as URLs are stored with runs and shown in logs. This is the only module that imports fsspec.

EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "abfs": "abfs", "abfss": "abfs", "az": "abfs"}


def check_url(url: str) -> None:
    """Raise ConfigError for a URL with credentials or a chain, or without its package; the error shows no secrets."""
    kind, _, rest = url.partition("://")
    shown = without_secrets(url)
    if "::" in url:
        raise ConfigError(f"{shown} chains several URLs; expected one, such as s3://BUCKET/FOLDER.")
    # abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/... names a container, and no user
    if "@" in rest.partition("/")[0] and not (EXTRAS.get(kind.lower()) == "abfs" and ":" not in rest.partition("@")[0]):
        raise ConfigError(
            f"{shown} contains a user or password, but okl stores and shows URLs. Use environment variables instead."
        )
    if shown != url:
        raise ConfigError(
            f"{shown} contains a query, which may hold a token, but okl stores URLs. Use environment variables instead."
        )
    file_system(url)


def file_system(url: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, and its path there; raise ConfigError for an unknown scheme."""
    kind = url.partition("://")[0].lower()
    try:
        made = _class_of(kind)
        fs = _file_system(made, kind, tuple(sorted(made._get_kwargs_from_urls(url).items())))
    except ImportError as error:
        what = f"pip install 'okl[{EXTRAS[kind]}]'" if kind in EXTRAS else first_line(error)
        raise ConfigError(f"{kind}:// requires a package that is not installed: {what}.") from None
    return fs, made._strip_protocol(url)


@cache
def _class_of(kind: str) -> Any:
    import fsspec

    try:
        return fsspec.get_filesystem_class(kind)
    except ValueError:
        raise ConfigError(
            f"{kind}:// is unknown; okl supports s3://, gs://, abfs:// and the protocols of fsspec."
        ) from None


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


# Digest checks of shards, once per file.
#
# A file is known by its device, its number there, its size and the time of its last change, so that one that is
# renamed with its folder stays known, and one that is written again does not. SHA-256 takes about a second for a
# gigabyte and a core; the bytes come from the disk once, as the reading that follows finds them in the system's
# memory.

_lock = Lock()
_verified: dict[tuple[int, int, int, int], str] = {}
_locks: dict[str, Lock] = {}


def verify_file(path: Path, sha256: str) -> None:
    """Read a file and compare its digest unless this process has; DataError for other bytes, or OSError."""
    if _verified.get(_state(path)) == sha256:
        return
    with _lock:
        waiting = _locks.setdefault(str(path), Lock())
    with waiting:  # threads that reach one shard at the same time hash it once
        state = _state(path)
        if _verified.get(state) != sha256:
            if file_sha256(path) != sha256:
                raise changed(path)
            _verified[state] = sha256
    with _lock:
        _locks.pop(str(path), None)


def written(path: Path) -> str:
    """Return the SHA-256 of a file that this process has just written, and remember it as verified."""
    state, digest = _state(path), file_sha256(path)
    _verified[state] = digest
    return digest


def file_sha256(file: Place) -> str:
    """Return the SHA-256 of the contents of a file, hexadecimal."""
    with open_binary(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def changed(location: object) -> DataError:
    """Return the message about a shard whose bytes have changed."""
    return DataError(
        f"{location} is damaged or has changed since ingest: its SHA-256 differs from manifest.json. "
        "Ingest the source again."
    )


def _state(path: Path) -> tuple[int, int, int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


# Local paths and URLs.
#
# A path of this machine stays a `pathlib.Path`, so that it costs nothing and a rename stays atomic. A URL is a
# `RemotePath`.

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]*://")
LOCAL = ("file://", "local://")


@dataclass(frozen=True)
class RemotePath:
    """A file or folder of an object store; shown and pickled as its URL, without credentials.

    url : such as s3://bucket/folder, without a slash at its end
    Raises ConfigError : the URL carries a user, a password or a token, or has an unknown scheme;
    Raises DataError : from every method, when the storage fails, after retries where they may help
    """

    url: str

    def __str__(self) -> str:
        return self.url

    def __fspath__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self.url}/{name}")

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        return Path(self.name).suffix

    @property
    def parent(self) -> RemotePath:
        return RemotePath(self.url.rpartition("/")[0])

    def absolute(self) -> RemotePath:
        """Return the URL itself, which is always absolute."""
        return self

    def exists(self) -> bool:
        """Return whether a file or a folder with files is there."""
        return self.info() is not None

    def is_file(self) -> bool:
        return (self.info() or {}).get("type") == "file"

    def is_dir(self) -> bool:
        """Return whether a folder with files is there."""
        return (self.info() or {}).get("type") == "directory"

    def info(self) -> dict[str, Any] | None:
        """Return the store's information about a file or folder: type, size and more; None if nothing is there."""
        found: dict[str, Any] | None = self._call(lambda fs, path: fs.info(path), "cannot be accessed", None)
        return found

    def files(self, below: bool = False) -> list[tuple[RemotePath, int]]:
        """Return the files of a folder with their bytes, by name; below: also of its folders."""

        def list_files(fs: Any, path: str) -> list[tuple[str, int]]:
            entries = fs.find(path, detail=True).values() if below else fs.ls(path, detail=True)
            files = [entry for entry in entries if entry["type"] == "file"]
            return sorted((entry["name"].removeprefix(path), int(entry["size"] or 0)) for entry in files)

        files: list[tuple[str, int]] = self._call(list_files, "cannot be listed", [])
        return [(RemotePath(self.url + rest), size) for rest, size in files]

    def matches(self) -> list[RemotePath]:
        """Return the files that match the URL as a glob, by name."""
        fixed = re.split(r"[*?\[]", self.url)[0]

        def list_files(fs: Any, path: str) -> list[str]:
            # by default a folder whose listing fails counts as empty; "**" lists in one request, which takes no option
            strict = {} if "**" in path else {"on_error": "raise"}
            entries = fs.glob(path, detail=True, **strict).values()
            before = re.split(r"[*?\[]", path)[0]
            return sorted(entry["name"].removeprefix(before) for entry in entries if entry["type"] == "file")

        files: list[str] = self._call(list_files, "cannot be listed", [])
        return [RemotePath(fixed + rest) for rest in files]

    def read_bytes(self) -> bytes:
        content: bytes = self._call(lambda fs, path: fs.cat_file(path), "cannot be read")
        return content

    def read_range(self, start: int, stop: int) -> bytes:
        """Return the bytes start to stop of a file; treat fewer bytes as a temporary failure."""

        def read(fs: Any, path: str) -> bytes:
            content: bytes = fs.cat_file(path, start=start, end=stop)
            if len(content) != stop - start:
                raise ConnectionError(f"received {len(content)} bytes instead of {stop - start}")
            return content

        return self._call(read, "cannot be read")

    def write_bytes(self, content: bytes | bytearray) -> None:
        """Make a file, whole or not at all; one that is there is replaced."""
        self._call(lambda fs, path: fs.pipe_file(path, bytes(content)), "cannot be written")

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        self.write_bytes(text.encode(encoding))

    def put(self, file: Path) -> None:
        """Make a file from one of this machine, whole or not at all."""
        self._call(lambda fs, path: fs.put_file(str(file), path), "cannot be written")

    def unlink(self) -> None:
        """Remove a file if it exists."""
        self._call(lambda fs, path: fs.rm_file(path), "cannot be removed", None)

    def _call(self, call: Callable[[Any, str], Answer], failing: str, *missing: Answer) -> Answer:
        """Call something with the file system and path, again where it may help; missing : answer without the file."""
        fs, path = file_system(self.url)

        def request() -> Answer:
            fs.invalidate_cache()  # another process may have written since
            try:
                return call(fs, path)
            except FileNotFoundError:
                if missing:
                    return missing[0]
                raise

        return with_retries(request, f"{self.url} {failing}")


Place = Path | RemotePath


def place_of(location: str | os.PathLike[str]) -> Place:
    """Return a local path, or the RemotePath of a URL; raise ConfigError for a URL that okl cannot use."""
    if isinstance(location, RemotePath | Path):
        return location
    text = os.fspath(location)
    if not URL.match(text):
        return Path(text)
    if text.startswith(LOCAL):
        return Path(text.partition("://")[2])
    check_url(text)
    return RemotePath(text.rstrip("/"))


def absolute_location(location: str) -> str:
    """Return an absolute local path, or a URL as it is, for a process in another folder."""
    parsed = place_of(location)
    return os.path.abspath(parsed) if isinstance(parsed, Path) else str(parsed)


def local_location(option: str, location: str) -> str:
    """Return an absolute local path; raise ConfigError for a URL, which this option does not take."""
    if URL.match(location):
        raise ConfigError(f"{option} {without_secrets(location)} is a URL; expected a local folder.")
    return os.path.abspath(location)


def json_files(folder: Place) -> list[Place]:
    """Return the files of a folder that end in .json, by name, without hidden ones; none where there is no folder."""
    if isinstance(folder, RemotePath):
        return [file for file, _ in folder.files() if file.suffix == ".json"]
    return [*sorted(folder.glob("[!.]*.json"))]


def size_of(location: Place) -> int:
    """Return the bytes of a file; raise OSError for a missing path, DataError for a missing URL."""
    if isinstance(location, Path):
        return location.stat().st_size
    info = location.info()
    if info is None:
        raise explained(FileNotFoundError(), f"{location} cannot be read")
    return int(info["size"] or 0)


# Local copies of remote files, fetched block by block on demand.
#
# A reader reads the same as from a local file, by the same code, and so gets the same bits; a
# request that fails is made again for its block alone. The copies of a process are held in a bounded part of the disk
# of TMPDIR (/var/tmp where it is not set: memory is often behind /tmp), and go with the process, however it ends.

BLOCK_BYTES = 2**20
REQUEST_BYTES = 8 * 2**20  # once a file is read in its order
REQUESTS = 4  # at a time, for a whole file
LEAST_BLOCKS = 32  # of a file that is held in part: what one read needs is never forgotten by the same read
MOST_COPIES = 256  # each is an open file
LIMIT_VARIABLE = "OKL_COPY_BYTES"
DEFAULT_BYTES = 8 * 2**30


class RemoteCopy:
    """An unnamed local file with those bytes of a remote file that were requested.

    place, size : the remote file and its bytes
    limit_bytes : of the disk; a larger file is held in part, and what was read of it first is forgotten
    """

    def __init__(self, location: RemotePath, size: int, limit_bytes: int) -> None:
        self.place, self.size = location, size
        self._limit_blocks = max(LEAST_BLOCKS, limit_bytes // BLOCK_BYTES)
        self._lock = Lock()
        with _on_disk(location), tempfile.TemporaryFile(prefix="okl-", dir=_folder()) as file:
            self.descriptor = os.dup(file.fileno())  # valid as long as this object lives
            os.ftruncate(self.descriptor, size)
        self._here = bytearray(-(-size // BLOCK_BYTES))

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)

    @property
    def held_bytes(self) -> int:
        return self._here.count(1) * BLOCK_BYTES

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes start to stop, fetched if necessary; raise DataError if they cannot be fetched."""
        stop = min(stop, self.size)
        if start >= stop:
            return b""
        if stop - start > REQUEST_BYTES:
            parts = range(start, stop, REQUEST_BYTES)
            return b"".join(self.read(part, min(part + REQUEST_BYTES, stop)) for part in parts)
        with self._lock:
            first, last = start // BLOCK_BYTES, (stop - 1) // BLOCK_BYTES
            while (missing := self._here.find(0, first, last + 1)) >= 0:
                self._fetch(missing, last + 1)
            return os.pread(self.descriptor, stop - start, start)

    def fetch_all(self) -> str:
        """Fetch the whole file, several requests at a time; its SHA-256, hexadecimal."""
        digest, step = hashlib.sha256(), REQUEST_BYTES
        starts = range(0, self.size, step)
        with ThreadPoolExecutor(REQUESTS) as pool:
            fetched = pool.map(lambda start: self._fetch_range(start, start + step), starts)
            for start, _ in zip(starts, fetched, strict=True):
                digest.update(os.pread(self.descriptor, min(step, self.size - start), start))
        self._here = bytearray(b"\1" * len(self._here))
        return digest.hexdigest()

    def _fetch_range(self, start: int, stop: int) -> None:
        content = self.place.read_range(start, min(stop, self.size))
        with _on_disk(self.place):
            rest = memoryview(content)
            while rest:
                written = os.pwrite(self.descriptor, rest, start)
                rest, start = rest[written:], start + written

    def _fetch(self, block: int, stop: int) -> None:
        """Fetch a block and those after it that are wanted, or likely to be: after a block that is here, many."""
        ahead = REQUEST_BYTES // BLOCK_BYTES
        follows = block > 0 and self._here[block - 1]
        stop = min(len(self._here), block + ahead if follows else min(stop, block + ahead))
        first_held = self._here.find(1, block, stop)
        stop = first_held if first_held >= 0 else stop
        if self._here.count(1) + stop - block > self._limit_blocks:
            os.ftruncate(self.descriptor, 0)
            os.ftruncate(self.descriptor, self.size)
            self._here = bytearray(len(self._here))
        self._fetch_range(block * BLOCK_BYTES, stop * BLOCK_BYTES)
        self._here[block:stop] = b"\1" * (stop - block)


class RemoteReader(io.RawIOBase):
    """A remote file to read and seek in; what it reads stays in a copy."""

    def __init__(self, copy: RemoteCopy) -> None:
        super().__init__()
        self._copy, self._at = copy, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._copy.size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes: as many as requested, or up to the end of the file."""
        stop = self._copy.size if size is None or size < 0 else self._at + size
        content = self._copy.read(self._at, stop)
        self._at += len(content)
        return content

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]  # any writable buffer
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)


class _Copies:
    """The copies of this process; the least recently used are removed when they take too much of the disk."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._lock = Lock()
        self._copies: OrderedDict[tuple[str, ...], RemoteCopy] = OrderedDict()

    def get(self, key: tuple[str, ...]) -> RemoteCopy | None:
        with self._lock:
            if key in self._copies:
                self._copies.move_to_end(key)
            return self._copies.get(key)

    def add(self, key: tuple[str, ...], copy: RemoteCopy) -> None:
        with self._lock:
            self._copies[key] = copy
            total = sum(copied.held_bytes for copied in self._copies.values())
            while len(self._copies) > 1 and (total > self.limit_bytes or len(self._copies) > MOST_COPIES):
                total -= self._copies.popitem(last=False)[1].held_bytes


@cache
def _copies() -> _Copies:
    return _Copies(bytes_from_environment(LIMIT_VARIABLE, DEFAULT_BYTES))


def copy_of(location: RemotePath) -> RemoteCopy:
    """Return the local copy of a remote file, with nothing fetched yet; raise DataError if there is no such file."""
    info = location.info()
    if info is None or info["type"] != "file":
        raise explained(FileNotFoundError(), f"{location} cannot be read")
    if info.get("size") is None:
        raise DataError(f"{location} cannot be read: its server does not report the size. Copy it to a folder first.")
    state = [str(info.get(name)) for name in ("size", "ETag", "etag", "LastModified", "mtime", "updated", "generation")]
    key = (str(location), *state)
    copies = _copies()
    copy = copies.get(key) or RemoteCopy(location, int(info["size"]), copies.limit_bytes)
    copies.add(key, copy)
    return copy


def whole_copy_of(location: RemotePath, size: int, sha256: str) -> RemoteCopy:
    """Return the whole local copy of a remote file, fetched unless cached; raise DataError if its digest differs."""
    key, copies = (str(location), sha256), _copies()
    copy = copies.get(key)
    if copy is None:
        copy = RemoteCopy(location, size, copies.limit_bytes)
        if copy.fetch_all() != sha256:
            raise changed(location)
        copies.add(key, copy)
    return copy


def _folder() -> str:
    named = os.environ.get("TMPDIR", "/var/tmp")
    return named if os.access(named, os.W_OK | os.X_OK) else tempfile.gettempdir()


@contextmanager
def _on_disk(location: RemotePath) -> Iterator[None]:
    """Convert errors of the local disk to a DataError that names the disk, not the store."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{location} cannot be copied to {_folder()}: {error.strerror}. Set TMPDIR to a folder with free space, or "
            f"{LIMIT_VARIABLE} to fewer bytes."
        ) from None


def open_binary(location: Place) -> io.RawIOBase:
    """Open a file for unbuffered reading; raise OSError for a path, DataError for a URL that cannot be read."""
    return open(location, "rb", buffering=0) if isinstance(location, Path) else RemoteReader(copy_of(location))


@contextmanager
def readable(location: Place, size_bytes: int = 0, sha256: str = "") -> Iterator[str | RemoteReader]:
    """Open a file for Arrow, as long as the context lasts.

    size_bytes, sha256 : of a shard, whose bytes are then verified, once in a process
    Raises DataError : a shard whose bytes are others, a URL that cannot be read; OSError : a path that cannot be
    """
    if isinstance(location, Path):
        if sha256:
            verify_file(location, sha256)
        yield str(location)
    elif sha256:
        copy = whole_copy_of(location, size_bytes, sha256)
        yield f"/dev/fd/{copy.descriptor}"
    else:
        with RemoteReader(copy_of(location)) as reader:
            yield reader


def combined_digest(files: Iterable[Place], digests: Iterable[str]) -> str:
    """Return the SHA-256 of the names and digests of files, hexadecimal."""
    total = hashlib.sha256()
    for file, digest in zip(files, digests, strict=True):
        total.update(f"{file.name}\0{digest}\n".encode())
    return total.hexdigest()
