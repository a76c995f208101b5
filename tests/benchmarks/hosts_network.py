"""Hosts as network namespaces of this machine, connected by a simulated wire with latency that can be cut.

Each host has one interface, a TUN device; the wire is a process that forwards packets after a delay,
so that it needs no queueing discipline of the kernel (`netem` is often missing). Nothing leaves the namespaces, which
have no other way out, and are removed with the processes in them. Needs root.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 0x0001, 0x1000, 0x40000000
DEVICE, MTU, NETWORK = "wire0", 1500, "10.97.0"

Counts = NDArray[np.int64]


class Hosts:
    """Hosts with addresses NETWORK.1, .2, ...; a context manager that removes them.

    names : of the hosts; latency_ms : from one to another, one way; it may be changed
    """

    def __init__(self, names: Sequence[str], latency_ms: float = 0.0) -> None:
        self.names = tuple(names)
        self._space = f"okl{os.getpid()}"
        self._started: list[subprocess.Popen[bytes]] = []
        context = get_context("fork")
        self._latency = context.Value("d", latency_ms)
        self._counted: Any = context.Array("q", len(names) ** 2, lock=False)
        for name in names:
            _ip("netns", "add", self._of(name))
        try:
            devices = [self._join(name) for name in names]
            self._wire = context.Process(target=_carry, args=(devices, self._counted, self._latency), daemon=True)
            self._wire.start()
            for device in devices:
                os.close(device)
        except BaseException:
            self._remove()
            raise

    def address(self, name: str) -> str:
        """Return the address of a host."""
        return f"{NETWORK}.{self.names.index(name) + 1}"

    def start(self, name: str, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a process on a host; it is killed when the hosts are removed."""
        process = subprocess.Popen(["ip", "netns", "exec", self._of(name), *command], **options)
        self._started.append(process)
        return process

    def latency(self, milliseconds: float) -> None:
        """Change the latency."""
        self._latency.value = milliseconds

    def cut(self, name: str) -> None:
        """Take a host's interface down: packets are lost without an error."""
        self._exec(name, "link", "set", DEVICE, "down")

    def mend(self, name: str) -> None:
        """Take a host's interface up again."""
        self._exec(name, "link", "set", DEVICE, "up")

    def counted(self) -> Counts:
        """Return the bytes so far, including IP and TCP headers, from host (row) to host (column)."""
        return np.array(self._counted[:]).reshape(len(self.names), -1)

    def _of(self, name: str) -> str:
        return f"{self._space}-{name}"

    def _exec(self, name: str, *words: str) -> None:
        _ip("-n", self._of(name), *words)

    def _join(self, name: str) -> int:
        self._exec(name, "link", "set", "lo", "up")
        device = _tun(Path("/run/netns") / self._of(name))
        self._exec(name, "link", "set", DEVICE, "mtu", str(MTU))
        self._exec(name, "addr", "add", f"{self.address(name)}/24", "dev", DEVICE)
        self._exec(name, "link", "set", DEVICE, "up")
        return device

    def _remove(self) -> None:
        for process in reversed(self._started):
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10.0)
        if hasattr(self, "_wire"):
            self._wire.kill()
            self._wire.join()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", self._of(name)], check=False, stderr=subprocess.DEVNULL)

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _tun(space: Path) -> int:
    """Return the descriptor of a new TUN device in a network namespace, for reading and writing packets."""
    own_namespace = os.open("/proc/self/ns/net", os.O_RDONLY)
    namespace = os.open(space, os.O_RDONLY)
    try:
        _enter(namespace)
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
        return device
    finally:
        _enter(own_namespace)
        os.close(own_namespace)
        os.close(namespace)


def _enter(space: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(space, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _carry(devices: list[int], counted: Any, latency: Any) -> None:
    """Forward packets between devices until killed; `counted` has the bytes by (from, to)."""
    n, waiting = len(devices), deque[tuple[float, int, bytes]]()
    hosts = {device: index for index, device in enumerate(devices)}
    while True:
        pause = max(0.0, waiting[0][0] - time.perf_counter()) if waiting else None
        ready, _, _ = select.select(devices, [], [], pause)
        for device in ready:
            source = hosts[device]
            with suppress(BlockingIOError):
                while True:
                    packet = os.read(device, 65536)
                    target = packet[19] - 1 if packet[0] >> 4 == 4 else -1
                    if 0 <= target < n:
                        waiting.append((time.perf_counter() + 1e-3 * latency.value, target, packet))
                        counted[source * n + target] += len(packet)
        while waiting and waiting[0][0] <= time.perf_counter():
            _, target, packet = waiting.popleft()
            with suppress(OSError):  # if that host is cut off or its queue is full, the packet is lost
                os.write(devices[target], packet)


if __name__ == "__main__":
    with Hosts(["a", "b"], float(sys.argv[1])) as pair:
        serve = "import socket;s=socket.create_server(('',9000));c,_=s.accept()\nwhile d:=c.recv(65536): c.sendall(d)"
        ask = (
            "import socket,time;time.sleep(.5);c=socket.create_connection(('10.97.0.1',9000))\n"
            "for n in (1,1,1000,100000):\n"
            " b=time.perf_counter();c.sendall(bytes(n));m=0\n"
            " while m<n: m+=len(c.recv(65536))\n"
            " print(n,'bytes there and back',time.perf_counter()-b)"
        )
        pair.start("a", [sys.executable, "-c", serve])
        pair.start("b", [sys.executable, "-c", ask]).wait(20)
        print(pair.counted())
