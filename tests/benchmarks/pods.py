"""The job that Prefect's own Kubernetes worker would make of a run: `python -m tests.benchmarks.pods`.

Needs `pip install 'okl[kubernetes-pool]'` in addition to the tests' dependencies, and no cluster: the worker's code
turns infra/kubernetes/pool.json and a deployment's variables into a manifest, checked against Kubernetes' schema.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import uuid
from importlib import import_module
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]  # no stubs
import yaml  # type: ignore[import-untyped]  # no stubs

from flows.server import TemporaryServer, connection

POOL = Path(__file__).parents[2] / "infra" / "kubernetes" / "pool.json"


async def manifest() -> dict[str, object]:
    """Return the manifest of a run of a deployment with the variables that infra/prefect.yaml gives."""
    from prefect.client.schemas.objects import FlowRun

    worker = import_module("prefect_kubernetes.worker")  # of an extra that the tests do not install
    configuration = await worker.KubernetesWorkerJobConfiguration.from_template_and_values(
        json.loads(POOL.read_text()), {"env": {"OKL_HOME": "/var/lib/okl"}}
    )
    configuration.prepare_for_flow_run(FlowRun(id=uuid.uuid4(), flow_id=uuid.uuid4(), name="nightly"))
    return dict(configuration.job_manifest)


def main() -> None:
    """Print the manifest; exit code 1 if Kubernetes would not accept it."""
    from prefect.settings import temporary_settings

    # Prefect looks up blocks that a template may name on its server
    with tempfile.TemporaryDirectory() as home, TemporaryServer(Path(home)) as server:
        server.wait_ready()
        with temporary_settings(connection(server.url, server.login)):
            job = asyncio.run(manifest())
    print(yaml.safe_dump(job, sort_keys=False))
    pod = job["spec"]["template"]["spec"]  # type: ignore[index]
    for name in ("completions", "parallelism"):  # Prefect sets them in the wrong object; Kubernetes ignores them there
        del pod[name]
    kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)
    if not (pod["securityContext"]["runAsNonRoot"] and pod["serviceAccountName"] == "run"):
        sys.exit("the pod would not be what pool.json says")
    print("valid")


if __name__ == "__main__":
    main()
