"""The services of infra/compose.yaml as processes of this machine: `python -m tests.benchmarks.composed`.

Every command, variable, secret, order of start and health check is read from the file; only places, names and ports are
mapped: volumes to a folder, hosts to 127.0.0.1, ports to free ones. PostgreSQL is a real one (as the user `postgres` if
this is root). Where bubblewrap is installed, all others are a user without rights in a file system that they cannot
write but for their volumes. Then a deployment retrains on Dask workers as files arrive, every minute by its schedule,
the server dies and comes back, and what the registry, the database and a copy from its backup hold is printed.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # no stubs

from okl.foundation.errors import OklError
from okl.models.registry import Registry
from tests.benchmarks.composed_postgres import Postgres
from tests.benchmarks.composed_services import Composed
from tests.lifecycle.shards import content, land

RUN_SECONDS = 240


def main() -> None:
    """Start all services, retrain, print the results, stop all services; exit with code 1 if a step failed."""
    with tempfile.TemporaryDirectory(prefix="okl-composed-") as folder:
        root = Path(folder)
        root.chmod(0o755)  # the user postgres must be able to enter
        composed = Composed(root)
        (composed.data / "inbox").mkdir(parents=True)
        print("confined by bubblewrap:", shutil.which("bwrap") is not None)
        land(composed.data / "inbox", "day-1.parquet", content(1001))
        try:
            for name in composed.order():
                start = time.monotonic()
                composed.start(name)
                print(f"{name:12} {composed.condition(name)} after {time.monotonic() - start:5.1f} s", flush=True)
            listening(composed)
            print(database(composed).rows("select version()")[0].partition(" on ")[0])
            retraining(composed)
            kill_server(composed)
            wait_for_version(composed, 3, RUN_SECONDS)
            print_records(composed)
        finally:
            composed.stop()


def retraining(composed: Composed) -> None:
    """Deploy as README.md says, to run every minute; a file arrives in between."""
    words = [
        "okl",
        "deploy",
        "/data/inbox",
        "--retrain",
        "churn",
        "--cron",
        "* * * * *",
        "--key",
        "hour",
        "--mode",
        "mix",
    ]
    words += [
        "--scale",
        "standard",
        "--frequencies",
        "50",
        "--step-size",
        "0.1",
        "--scheduler",
        "tls://scheduler:8786",
        "--tls",
        "/run/certificates",
    ]
    words += ["--publish-if", "not worse", "--settle-seconds", "0"]
    print(command(composed, "deployments", words).strip().replace("\n", ", "))
    wait_for_version(composed, 1, RUN_SECONDS)
    land(composed.data / "inbox", "day-2.parquet", content(1002))
    wait_for_version(composed, 2, RUN_SECONDS)


def kill_server(composed: Composed) -> None:
    """Kill Prefect's server and start it again, as the container engine does; a file arrives meanwhile."""
    composed.kill("prefect-server")
    land(composed.data / "inbox", "day-3.parquet", content(1003))
    start = time.monotonic()
    composed.start("prefect-server")
    print(f"prefect-server killed, and healthy again after {time.monotonic() - start:.1f} s")


def wait_for_version(composed: Composed, number: int, seconds: float) -> None:
    """Wait until the champion is a version."""
    start = time.monotonic()
    registry = Registry(str(composed.place / "home" / "registry"))
    while True:
        with suppress(OklError):
            if registry.model("churn").version("champion").number >= number:
                break
        if time.monotonic() - start > seconds:
            raise RuntimeError(f"no version {number} in {seconds:.0f} s: {composed.log('worker')[-6000:]}")
        time.sleep(0.5)
    print(f"version {number} is champion after {time.monotonic() - start:.1f} s of waiting", flush=True)


def print_records(composed: Composed) -> None:
    """Print the runs in the database, the versions in the registry, and whether a backup holds as many runs."""
    sql = "select state_name, count(*) from flow_run where deployment_id is not null group by 1 order by 1"
    runs = database(composed).rows(sql)
    print("runs:", ", ".join(runs))
    print(command(composed, "worker", ["okl", "models", "show", "churn"]).strip())
    print("runs in a copy made from the backup:", ", ".join(database(composed).restored(sql)))


def database(composed: Composed) -> Postgres:
    """Return the running database."""
    assert composed.database is not None
    return composed.database


def command(composed: Composed, service: str, words: list[str]) -> str:
    """Return the output of a command run like in the container of a service; exit with code 1 if it fails."""
    outcome = composed.run_in(service, words, RUN_SECONDS)
    if outcome.returncode:
        sys.exit(f"{' '.join(words)} ended with code {outcome.returncode}: {outcome.stdout}")
    return outcome.stdout


def listening(composed: Composed) -> None:
    """Print how many sockets all these processes listen on; exit if one of them is reachable from other machines."""
    sockets: list[tuple[str, int, str]] = []
    for process in composed.processes():
        for child in (process, *process.children(recursive=True)):
            listeners = [one.laddr for one in child.net_connections("inet") if one.status == psutil.CONN_LISTEN]
            sockets += [(one.ip, one.port, " ".join(child.cmdline()[:4])) for one in listeners]
    external = [one for one in sockets if one[0] not in ("127.0.0.1", "::1")]
    print(f"{len(sockets)} sockets listen, all on loopback: {not external}")
    if external:
        sys.exit(f"these listen beyond loopback: {external}")


if __name__ == "__main__":
    main()
