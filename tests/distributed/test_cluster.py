"""Certificates: clients and workers without one, or with one of another authority, are refused."""

from __future__ import annotations

import os
import socket
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from infra.tls.make import main as make_certificates
from okl.data.dataset import Dataset
from okl.distributed import open_execution
from okl.distributed.dask import DaskExecution
from okl.foundation.errors import ConfigError, ExecutionError
from tests.distributed import works
from tests.distributed.processes import descendants, listening
from tests.distributed.test_lifecycle import LOOPBACK
from tests.distributed.works import SampledSum, add_up


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("foreign")
    assert make_certificates([str(folder), "--host", "10.0.0.1", "--host", "node-1"]) == 0
    return folder


def test_keys_are_readable_by_the_owner_only_and_renewal_keeps_the_authority(tmp_path: Path) -> None:
    assert make_certificates([str(tmp_path)]) == 0
    keys = sorted(tmp_path.rglob("*key.pem"))
    assert len(keys) == 4
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}
    authority, worker = (tmp_path / name for name in ("authority/ca.pem", "worker/cert.pem"))
    before = authority.read_bytes(), worker.read_bytes()
    assert make_certificates([str(tmp_path)]) == 0
    assert authority.read_bytes() == before[0]
    assert worker.read_bytes() != before[1]


def test_work_with_certificates_has_the_same_bits_and_listens_on_loopback_only(
    cluster: DaskExecution, data: Dataset, certificates: Path
) -> None:
    work = SampledSum(data, 1)
    with open_execution(threads=1) as local:
        expected = local.sum(work, data.shards, (0, np.zeros(6)), add_up)
    assert cluster.address.startswith("tls://127.0.0.1:")
    with DaskExecution(address=cluster.address, n_threads=1, tls=str(certificates / "worker")) as second:
        np.testing.assert_array_equal(second.sum(work, data.shards, (0, np.zeros(6)), add_up), expected)
    addresses = listening({os.getpid(), *descendants(os.getpid())})
    assert len(addresses) >= 3
    assert {address.partition(":")[0] for address in addresses} <= LOOPBACK


def test_workers_keep_the_row_limit_until_the_run_ends(cluster: DaskExecution, certificates: Path) -> None:
    """The limit also applies to workers that join later; after the run, the previous limit is restored."""
    before = set(cluster.map(works.held_limit, range(40)))
    with DaskExecution(address=cluster.address, n_threads=1, tls=str(certificates / "client")) as run:
        limit = run.memory_limit_bytes
        assert limit is not None
        assert limit > 2**28
        run.hold(12345)
        assert set(run.map(works.held_limit, range(40))) == {12345}
    assert set(cluster.map(works.held_limit, range(40))) == before
    assert before != {12345}


def test_a_client_without_or_with_a_foreign_certificate_is_refused(cluster: DaskExecution, foreign: Path) -> None:
    with pytest.raises(ConfigError, match=r"scheduler at tls://.* requires a certificate: give --tls FOLDER"):
        DaskExecution(address=cluster.address)
    with pytest.raises(ExecutionError, match=r"No Dask scheduler .*client is of the scheduler's own authority"):
        DaskExecution(address=cluster.address, tls=str(foreign / "client"))
    with pytest.raises(ConfigError, match="address without encryption"):
        DaskExecution(address=cluster.address.replace("tls://", "tcp://"), tls=str(foreign / "client"))


def test_a_connection_without_or_with_a_foreign_certificate_ends_before_a_message(
    cluster: DaskExecution, certificates: Path, foreign: Path
) -> None:
    host, port = cluster.address.removeprefix("tls://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as plain:
        plain.sendall(b"x" * 64)
        assert received_byte(plain) in (b"", b"\x15")  # closed, or a TLS alert; never a message from Dask
    for folder in (None, foreign / "worker"):
        context = ssl.create_default_context(cafile=str(certificates / "client" / "ca.pem"))
        context.check_hostname = False
        if folder is not None:
            context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        with (
            socket.create_connection((host, int(port)), timeout=5) as raw,
            pytest.raises(ssl.SSLError, match=r"(?i)certificate|unknown.ca"),
            context.wrap_socket(raw) as wrapped,
        ):
            wrapped.recv(1)  # in TLS 1.3 the server's refusal comes after the client's part of the handshake


def received_byte(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1)
    except ConnectionError:
        return b""


def test_a_worker_with_a_foreign_certificate_never_joins(cluster: DaskExecution, foreign: Path, tmp_path: Path) -> None:
    certificate_folder = foreign / "worker"
    command = [
        *(sys.executable, "-m", "distributed.cli.dask_worker", cluster.address, "--host", "tls://127.0.0.1"),
        *("--tls-ca-file", str(certificate_folder / "ca.pem"), "--tls-cert", str(certificate_folder / "cert.pem")),
        *("--tls-key", str(certificate_folder / "key.pem"), "--no-dashboard", "--no-nanny", "--death-timeout", "2"),
        *("--local-directory", str(tmp_path)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "certificate verify failed" in done.stderr.lower() or "tls" in done.stderr.lower(), done.stderr
    assert cluster.n_workers == 3
    assert list(cluster.map(abs, [-1, -2])) == [1, 2]


def test_message_for_unusable_certificates_names_the_problem(certificates: Path, foreign: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ca\.pem cannot be read"):
        open_execution(1, tls=str(tmp_path))
    for name, source in (("ca.pem", certificates), ("cert.pem", certificates), ("key.pem", foreign)):
        (tmp_path / name).write_bytes((source / "client" / name).read_bytes())
    with pytest.raises(ConfigError, match="KEY_VALUES_MISMATCH"):
        open_execution(1, tls=str(tmp_path))
    with pytest.raises(ConfigError, match="workers and cluster exclude each other"):
        open_execution(1, cluster="x.toml")
