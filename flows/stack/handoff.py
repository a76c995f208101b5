"""Hands a command over to a process that has imported okl and Prefect already: a script that imports next to nothing.

    python -I -S handoff.py FOLDER

stands for `python -m prefect.engine`. It asks the fork server of the stack in FOLDER for a process, which gets this
one's environment, directory and standard streams; passes signals on; and ends as that process ends. Where the fork
server is gone, or refuses (other settings, other code), it becomes the command itself, seconds slower.
"""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import sys

SOCKET = "warm.sock"
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STREAMS = (0, 1, 2)
ANSWER_SECONDS = 5.0
TYPE_CHECKING = False  # as in typing, whose import takes as long as all the others
if TYPE_CHECKING:
    from typing import Any

    Asked = dict[str, Any]


def connect(folder: str) -> socket.socket:
    """A connection to the fork server of a folder, or OSError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    directory = os.getcwd()
    try:
        # by its name alone: the path of a socket has room for a hundred characters
        os.chdir(folder)
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(SOCKET)
    except BaseException:
        connection.close()
        raise
    finally:
        os.chdir(directory)
    return connection


def ask(connection: socket.socket, request: Asked, streams: tuple[int, ...] = ()) -> Asked:
    """Send a request, and open files with it; return the answer, or raise OSError or ValueError."""
    content = json.dumps(request).encode()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))] if streams else []
    connection.sendmsg([len(content).to_bytes(8, "big")], rights)
    connection.sendall(content)
    answer: Asked = json.loads(read_line(connection))
    return answer


def read_line(connection: socket.socket) -> bytes:
    """A line, without its end; empty where the other side hung up."""
    line = b""
    while not line.endswith(b"\n"):
        more = connection.recv(1)
        if not more:
            return b""
        line += more
    return line[:-1]


def run_there(folder: str, module: str, words: list[str], environment: dict[str, str]) -> str:
    """Run a module over there, and end as it ends; if nobody answers, or it is refused, return the reason."""
    try:
        connection = connect(folder)
        # until the process is there, signals wait
        signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
        ignored = [number for number in PASSED_ON if signal.getsignal(number) is signal.SIG_IGN]
        request = {
            "module": module, "words": words, "environment": environment, "directory": os.getcwd(),
            "ignored": [int(number) for number in ignored],
        }  # fmt: skip
        answer = ask(connection, request, STREAMS)
    except (OSError, ValueError) as error:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        return str(error)
    if "refused" in answer:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        return str(answer["refused"])

    def pass_on(number: int, _: object) -> None:
        connection.sendall(bytes([number]))

    for number in PASSED_ON:
        if number not in ignored:
            signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    connection.settimeout(None)
    try:
        code = json.loads(read_line(connection) or "{}").get("code", -signal.SIGKILL)
    except OSError:
        code = -signal.SIGKILL
    if code < 0:  # as it ended: by a signal
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    reason = run_there(sys.argv[1], "prefect.engine", [], dict(os.environ))
    print(f"okl: started cold ({reason})", file=sys.stderr, flush=True)
    cold = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cold.py")
    os.execv(sys.executable, [sys.executable, "-P", cold, str(os.getppid())])
