"""Asking a store again when its failure may pass, and saying in a sentence what it was when it did not.

A time-out, a broken connection, a server that is busy or at fault (HTTP 408, 429, 5xx) may pass; a refusal or a file
that is not there will not, and is asked for once.
"""

from __future__ import annotations

import errno
import random
import re
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from okl.errors import OklError, PlaceError

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


def persistently(ask: Callable[[], Answer], failing: str) -> Answer:
    """What a call returns, made again with longer and longer waits while its failures are such that may pass.

    Raises
    ------
    PlaceError : it failed for good, or each time; failing is how the sentence begins: what cannot be done to what
    """
    for attempt in range(ATTEMPTS):
        try:
            return ask()
        except OklError:
            raise
        except Exception as error:  # of whatever kind: each store has a family of its own
            if not may_pass(error):
                raise explained(error, failing) from None
            last = error
        if attempt < ATTEMPTS - 1:
            # not in step with the others who failed at this moment; it changes when, and never what
            time.sleep(FIRST_WAIT_SECONDS * 2**attempt * random.uniform(0.5, 1.5))
    raise explained(last, failing, f" each of {ATTEMPTS} times") from None


def may_pass(error: BaseException) -> bool:
    """Whether asking again may help, by the error's kind, its number, or the HTTP status that it or its cause holds."""
    for one in _chain(error):
        if isinstance(one, FINAL) or "Credential" in type(one).__name__:
            return False
        status = _status(one)
        if status is not None:
            return status >= 500 or status in PASSING_STATUS
        if isinstance(one, TimeoutError | ConnectionError):
            return True
        if isinstance(one, OSError) and one.errno in PASSING:
            return True
        if any(PASSING_NAMES.search(kind.__name__) for kind in type(one).__mro__):
            return True
    return False


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an error or what it was raised from holds, if any."""
    return next((status for one in _chain(error) if (status := _status(one)) is not None), None)


def explained(error: BaseException, failing: str, how_often: str = "") -> PlaceError:
    """The sentence for a failure that stays."""
    names = " ".join(type(one).__name__ for one in _chain(error))
    why = first_line(error)
    if "Credential" in names:
        why, advice = "no credentials were found", "Give them in the environment, or in fsspec's configuration."
    elif isinstance(error, PermissionError) or _status(error) in (401, 403):
        why, advice = f"permission was refused ({why})", "Check the credentials, and what they are allowed to do."
    elif isinstance(error, FileNotFoundError):
        why, advice = (
            f"it does not exist ({why})" if str(error) else "it does not exist",
            "Check the bucket and the name.",
        )
    elif may_pass(error):
        advice = "Try again when the store answers."
    else:
        advice = "Check the URL, and the settings of its store."
    failure = PlaceError(without_secrets(f"{failing}{how_often}: {why}. {advice}"))
    failure.passing = may_pass(error)
    return failure


def without_secrets(text: str) -> str:
    """A text whose URLs have lost users, passwords and queries.

    >>> without_secrets("at https://me:word@host/a?token=1 and s3://bucket/part-?.csv")
    'at https://host/a and s3://bucket/part-?.csv'
    """
    return SECRETS.sub("", text)


def first_line(error: BaseException) -> str:
    """First line of a message, without a full stop; the kind of error where there is none."""
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (said.strip().splitlines() or [type(error).__name__])[0].rstrip(". ")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what it was raised from."""
    one: BaseException | None = error
    while one is not None:
        yield one
        one = one.__cause__


def _status(error: BaseException) -> int | None:
    """The HTTP status that an error holds, wherever its family keeps it."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        held = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return held if isinstance(held, int) else None
    for owner in (error, response):
        for name in ("status", "status_code", "code"):
            held = getattr(owner, name, None)
            if isinstance(held, int) and 100 <= held < 600:
                return held
    return None
