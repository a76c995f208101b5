"""A local S3 server on the loopback interface that fails on request, for tests of remote locations."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

from okl.foundation import locations

BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


class Faulty:
    """A WSGI application that wraps another one and sometimes fails in one of three ways, drawn from a seed.

    share : of the requests that fail; refused : whether a request (method and path) is refused for good
    requests, failed : how many came, and how many failed
    """

    def __init__(self, app: Any) -> None:
        self._app, self._lock = app, threading.Lock()
        self.reset()

    def reset(self, share: float = 0.0, seed: int = 0) -> None:
        self.share, self._random, self.requests, self.failed = share, random.Random(seed), 0, 0
        self.request_log: list[tuple[str, str]] = []
        self.refused: Callable[[str, str], bool] = lambda method, path: False
        self.before: Callable[[str, str], None] = lambda method, path: None

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        request = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        with self._lock:
            self.requests += 1
            self.request_log.append(request)
            failure = self._random.randrange(3) if self._random.random() < self.share else None
            self.failed += failure is not None
        self.before(*request)
        if self.refused(*request):
            start("403 Forbidden", [("Content-Type", "application/xml"), ("Content-Length", str(len(DENIED)))])
            return [DENIED] if request[0] != "HEAD" else []
        if failure is None:
            answer: Iterable[bytes] = self._app(environ, start)
            return answer
        if failure == 0:
            start("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", str(len(BUSY)))])
            return [BUSY] if request[0] != "HEAD" else []
        if failure == 1:
            raise ConnectionResetError  # the connection is closed without an answer
        return self._cut_short(environ, start)

    def _cut_short(self, environ: WSGIEnvironment, start: StartResponse) -> Iterator[bytes]:
        """Return half of the response, then stop."""
        content = b"".join(self._app(environ, start))
        yield content[: len(content) // 2]
        raise ConnectionResetError


class _Quiet(WSGIRequestHandler):
    """Request handler that neither logs requests nor prints the intended failures."""

    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:
        return None

    def run_wsgi(self) -> None:
        try:
            super().run_wsgi()
        except ConnectionResetError:
            self.close_connection = True

    def connection_dropped(self, error: BaseException, environ: WSGIEnvironment | None = None) -> None:
        self.close_connection = True


@contextmanager
def s3_server() -> Iterator[tuple[str, Faulty]]:
    """Yield the address of a running server and the application that controls its failures."""
    app = Faulty(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", app
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def bucket_served(name: str, home: Path) -> Iterator[Faulty]:
    """Run a server with a bucket, and set the environment to the server and to a home folder of okl."""
    with pytest.MonkeyPatch.context() as patch, s3_server() as (address, app):
        patch.setenv("OKL_HOME", str(home))
        patch.setattr(locations, "FIRST_WAIT_SECONDS", 0.005)
        point_at(patch, address)
        files = locations.file_system("s3://any")[0]
        if not files.exists(name):  # moto keeps all buckets of a process
            files.mkdir(name)
        try:
            yield app
        finally:
            locations._file_system.cache_clear()
            locations._copies.cache_clear()


def point_at(patch: pytest.MonkeyPatch, address: str) -> None:
    """Set the environment variables of a client: the address of the server and the credentials."""
    for name, value in {
        "AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "KEYOFTESTS", "AWS_SECRET_ACCESS_KEY": "SECRETOFTESTS",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
    }.items():  # fmt: skip
        patch.setenv(name, value)
