"""Preload of Dask's scheduler and workers: they serve no web pages, which other users of the machine could read."""

from __future__ import annotations

import os
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_unix_socket

from okl.distributed.processes import HEALTH


async def dask_setup(server: Any) -> None:
    """Stop the HTTP server of a scheduler or worker; serve its health check on the unix socket of OKL_HEALTH_SOCKET."""
    server.http_server.stop()
    if path := os.environ.get(HEALTH):
        HTTPServer(server.http_application).add_socket(bind_unix_socket(path, mode=0o600))
