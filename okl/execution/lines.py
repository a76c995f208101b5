"""Lines to worker processes of this machine: a socket in a private folder, and a thread at its other end that answers.

A round of Dask's own messages passes through two event loops and a dozen of coroutines, which takes some 2 ms where the
work has just emptied the caches. A line wakes one thread at either end.

What crosses is pickled, so only the user who started the workers may connect: the folder must let nobody else in, and
the system is asked, at each connection, whose process is at the other end.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread

from okl.execution.batches import Reply, run_batch

_LENGTH, _CREDENTIALS = struct.Struct("<Q"), struct.Struct("3i")
CONNECT_SECONDS = 5.0
Parcel = tuple[str, bytes | None, bytes, bytes | None, str]
"""Digest, content, items, value and label: see `run_batch`."""

_opening = Lock()
_opened: dict[str, str] = {}


def open_line(folder: str, worker: str) -> str:
    """Have this process answer at a socket in a folder, from now on; its path. Calling again changes nothing.

    worker : name of this worker, for messages
    """
    with _opening:
        if folder not in _opened:
            path = str(Path(folder) / f"line-{os.getpid()}")
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path)
            os.chmod(path, 0o600)
            listener.listen()
            Thread(target=_accept, args=(listener, worker), name="okl-lines", daemon=True).start()
            _opened[folder] = path
        return _opened[folder]


def _accept(listener: socket.socket, worker: str) -> None:
    while True:
        line, _ = listener.accept()
        _, user, _ = _CREDENTIALS.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        if user == os.getuid():
            Thread(target=_answer, args=(line, worker), name="okl-line", daemon=True).start()
        else:
            line.close()


def _answer(line: socket.socket, worker: str) -> None:
    """Work on batches as they come, until the caller hangs up."""
    with line, suppress(OSError, EOFError):
        while True:
            digest, content, items, value, label = pickle.loads(_receive(line))
            try:
                reply = run_batch(digest, content, items, value, worker, label)
            except Exception:  # the work cannot be loaded here: without an answer it goes by Dask, which says why
                return
            _send(line, pickle.dumps(reply, protocol=pickle.HIGHEST_PROTOCOL))


class Line:
    """The caller's end. Raises OSError if nobody answers, EOFError if the other end hangs up, as it does when it dies.

    path : of the socket; seconds : to wait for the other end once a message has begun, either way
    """

    def __init__(self, path: str, seconds: float = CONNECT_SECONDS) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(seconds)
        try:
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """Of the socket, to wait for an answer."""
        return self._socket.fileno()

    def ask(self, parcel: Parcel) -> None:
        """Send a batch."""
        _send(self._socket, pickle.dumps(parcel, protocol=pickle.HIGHEST_PROTOCOL))

    def reply(self) -> Reply:
        """What came back."""
        reply = pickle.loads(_receive(self._socket))
        assert isinstance(reply, Reply)
        return reply

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def _send(line: socket.socket, content: bytes) -> None:
    line.sendall(_LENGTH.pack(len(content)) + content)


def _receive(line: socket.socket) -> bytearray:
    (size,) = _LENGTH.unpack(_exactly(line, _LENGTH.size))
    return _exactly(line, size)


def _exactly(line: socket.socket, size: int) -> bytearray:
    content = bytearray(size)
    view = memoryview(content)
    while view:
        n_read = line.recv_into(view)
        if not n_read:
            raise EOFError("the other end has hung up")
        view = view[n_read:]
    return content
