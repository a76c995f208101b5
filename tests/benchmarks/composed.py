"""The services of infra/compose.yaml as processes of this machine: `python -m tests.benchmarks.composed`.

Every command, variable, secret, order of start and health check is read from the file; only places, names and ports are
mapped: volumes to a folder, hosts to 127.0.0.1, ports to free ones. PostgreSQL is a real one (as the user `postgres` if
this is root). Then files arrive, the deployments run, and it is told what is in the database and in the registry.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # no stubs

from tests.benchmarks.composed_services import Composed
from tests.flows.blobs import write_blobs

RUN_SECONDS = 240


def main() -> None:
    """Start everything, let it learn, print what happened, end everything; exit code 1 if a step failed."""
    with tempfile.TemporaryDirectory(prefix="okl-composed-") as folder:
        place = Path(folder)
        place.chmod(0o755)  # PostgreSQL's own user has to pass
        composed = Composed(place)
        (composed.data / "inbox").mkdir(parents=True)
        write_blobs(composed.data / "inbox" / "day-1.parquet")
        try:
            for name in composed.order():
                begun = time.monotonic()
                composed.start(name)
                print(f"{name:12} {composed.condition(name)} after {time.monotonic() - begun:5.1f} s", flush=True)
            listening(composed)
            print(composed.psql("select version()")[0].partition(" on ")[0])
            settings = {
                "data": "/data/inbox", "scheduler": "tls://scheduler:8786", "tls": "/run/certificates",
                "frequencies": 20, "mode": "mix", "ingest": {"scale": "standard"},
            }  # fmt: skip
            run(composed, "okl-train/default", settings)
            for row in composed.psql(
                "select name, state_name from flow_run union all select name, state_name from task_run"
            ):
                print("   ", row)
        finally:
            composed.stop()


def run(composed: Composed, deployment: str, settings: dict[str, Any]) -> None:
    """Trigger a deployment from inside the worker's container, as it were, and wait for its end."""
    begun = time.monotonic()
    words = ["prefect", "deployment", "run", deployment, "--watch", "--param", f"settings={json.dumps(settings)}"]
    outcome = composed.run_in("worker", words, RUN_SECONDS)
    print(f"{deployment}: exit code {outcome.returncode} after {time.monotonic() - begun:.1f} s")
    if outcome.returncode:
        print(outcome.stdout)
        print(composed.log("worker")[-4000:])
        sys.exit(1)


def listening(composed: Composed) -> None:
    """Print how many sockets all these processes listen on; stop if one of them is reached from elsewhere."""
    found: list[tuple[str, int, str]] = []
    for process in composed.processes():
        for child in (process, *process.children(recursive=True)):
            listeners = [one.laddr for one in child.net_connections("inet") if one.status == psutil.CONN_LISTEN]
            found += [(one.ip, one.port, " ".join(child.cmdline()[:4])) for one in listeners]
    beyond = [one for one in found if one[0] not in ("127.0.0.1", "::1")]
    print(f"{len(found)} sockets listen, all on loopback: {not beyond}")
    if beyond:
        sys.exit(f"these listen beyond loopback: {beyond}")


if __name__ == "__main__":
    main()
