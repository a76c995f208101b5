"""Retries of transient errors: which errors, how often, and the final message."""

from __future__ import annotations

import errno
import time
from typing import Any

import pytest

from okl.foundation import locations
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.locations import ATTEMPTS, may_be_transient, with_retries, without_secrets


class AnsweredError(Exception):
    """An error with an HTTP status, like those of object store libraries."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the server said {status}")
        self.status = status


class NoCredentialsError(Exception):
    pass


class EndpointConnectionError(Exception):
    pass


class FailingCall:
    """A call that fails several times and then succeeds."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.left, self.calls = error, times, 0

    def __call__(self) -> str:
        self.calls += 1
        self.left -= 1
        if self.left >= 0:
            raise self.error
        return "here"


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the list of requested waits, in seconds."""
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    return waited


TRANSIENT = [
    *(
        TimeoutError(),
        ConnectionResetError(),
        BrokenPipeError(),
        AnsweredError(500),
        AnsweredError(503),
        AnsweredError(429),
    ),
    *(OSError(errno.EBUSY, "slow down"), OSError(errno.ETIMEDOUT, ""), EndpointConnectionError("no answer")),
]
FINAL = [
    *(
        PermissionError("Access Denied"),
        FileNotFoundError("gone"),
        AnsweredError(403),
        AnsweredError(404),
        AnsweredError(400),
    ),
    *(NoCredentialsError(), ValueError("no bucket"), OSError(errno.ENOSPC, "No space left on device")),
]


@pytest.mark.parametrize("error", TRANSIENT, ids=repr)
def test_transient_errors_are_retried_with_increasing_waits(error: Exception, waits: list[float]) -> None:
    call = FailingCall(error, ATTEMPTS - 1)
    assert with_retries(call, "s3://b/x cannot be read") == "here"
    assert call.calls == ATTEMPTS
    middle = [locations.FIRST_WAIT_SECONDS * 2**attempt for attempt in range(ATTEMPTS - 1)]
    assert all(0.5 * wait <= waited <= 1.5 * wait for wait, waited in zip(middle, waits, strict=True))
    with pytest.raises(DataError, match=rf"^s3://b/x cannot be read in {ATTEMPTS} attempts: .+\. Try again"):
        with_retries(FailingCall(error, 99), "s3://b/x cannot be read")


@pytest.mark.parametrize("error", FINAL, ids=repr)
def test_a_refusal_or_a_missing_file_is_not_retried(error: Exception, waits: list[float]) -> None:
    call = FailingCall(error, 99)
    with pytest.raises(DataError, match=r"^s3://b/x cannot be read: .+\. (Check|Set) "):
        with_retries(call, "s3://b/x cannot be read")
    assert (call.calls, waits) == (1, [])


def test_the_cause_of_an_error_can_be_transient() -> None:
    outer: Any = RuntimeError("failed")
    outer.__cause__ = AnsweredError(502)
    assert may_be_transient(outer)
    outer.__cause__ = AnsweredError(401)
    assert not may_be_transient(outer)


def test_an_error_of_okl_is_raised_unchanged() -> None:
    with pytest.raises(ConfigError, match=r"^as it is$"):
        with_retries(FailingCall(ConfigError("as it is"), 1), "nothing")


def test_no_sentence_holds_a_password_or_a_token() -> None:
    error = RuntimeError("GET https://me:word@host/b?X-Amz-Signature=abc&token=def failed")
    with pytest.raises(DataError) as caught:
        with_retries(FailingCall(error, 99), "s3://b/x cannot be read")
    assert not any(secret in str(caught.value) for secret in ("word", "abc", "def", "me:"))
    assert "https://host/b failed" in str(caught.value)
    assert (
        without_secrets("s3://bucket/part-?.csv and s3://bucket/a=1/b")
        == "s3://bucket/part-?.csv and s3://bucket/a=1/b"
    )
