"""Attempts of another user to open files and ports of a stack, and another program on its port."""

from __future__ import annotations

import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

PROBE = r"""
import http.client, json, os, socket, ssl, sys
import encodings.idna  # imported before the user changes, who may not read this installation

paths = sys.stdin.read().split("\0")
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)

def opened(folder):
    for path in [folder, *paths]:
        for flags in (os.O_RDONLY, os.O_WRONLY):
            try:
                os.close(os.open(path, flags | os.O_NONBLOCK))
                yield path
            except OSError:
                pass
    try:
        os.close(os.open(os.path.join(folder, "planted"), os.O_CREAT | os.O_WRONLY))
        yield "planted"
    except OSError:
        pass

def answers(port):
    found = []
    body = json.dumps({"name": "planted"})
    for method, path in (("GET", "/api/admin/version"), ("POST", "/api/flows/"), ("GET", "/json/counts.json")):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            found.append(connection.getresponse().status)
        except (OSError, http.client.HTTPException):
            found.append("refused")
    plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    plain.check_hostname, plain.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as raw, plain.wrap_socket(raw) as talk:
            talk.settimeout(5)
            found.append("talks" if talk.recv(1) else "refused")  # a scheduler greets first
    except TimeoutError:
        found.append("silent")
    except OSError:
        found.append("refused")
    return found

folder, *ports = sys.argv[1:]
print(json.dumps([sorted(opened(folder)), {port: answers(int(port)) for port in ports}]))
"""


class NotPrefect(BaseHTTPRequestHandler):
    """Another program on the port of a server that has ended."""

    def do_GET(self) -> None:
        self.send_error(404)

    def do_POST(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        pass


def reached(folder: Path, *ports: int) -> tuple[list[str], dict[str, list[int | str]]]:
    """Return what user 65534 can open below a folder, and the answers of ports of 127.0.0.1 without a certificate."""
    inside = [str(path) for path in folder.rglob("*") if not path.is_symlink()]
    done = subprocess.run(
        [sys.executable, "-I", "-c", PROBE, str(folder), *map(str, ports)], input="\0".join(inside),
        capture_output=True, text=True, check=True, cwd="/",
    )  # fmt: skip
    files, answers = json.loads(done.stdout)
    return files, answers
