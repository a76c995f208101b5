"""Secrets in files, objects and outputs of okl: `python -m tests.benchmarks.secrets`.

A key of S3, an option of a cluster file and Prefect's login, while `okl up` runs: training on the workers of a cluster
file, retraining and scoring at s3:// URLs, a deployment and its run, `okl down`. Then every file of the home folder
(Prefect's database, logs, reports), every object in the bucket, every output and every command line of a process
seen meanwhile is searched. Exit code 1 if a secret is anywhere but in the file of Prefect's login.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flows.server import stack_login
from flows.stack.state import live_state, stack_folder
from okl.foundation import locations
from tests.lifecycle.shards import content, land
from tests.objectstore import bucket_served

LOOK_SECONDS = 0.02


@contextmanager
def command_lines() -> Iterator[set[bytes]]:
    """Collect the command lines of all processes of the machine in a block."""
    seen: set[bytes] = set()
    ended = threading.Event()

    def collect() -> None:
        while not ended.wait(LOOK_SECONDS):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.add(path.read_bytes())
                except OSError:  # the process has ended
                    continue

    thread = threading.Thread(target=collect)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def okl(outputs: list[bytes], *words: str) -> None:
    """Run a command that must succeed, and collect what it prints."""
    process = subprocess.run([sys.executable, "-m", "flows.cli", *words], capture_output=True, check=False)
    outputs += [process.stdout, process.stderr]
    print(f"okl {' '.join(words)[:100]}: exit code {process.returncode}", flush=True)
    if process.returncode:
        raise SystemExit(process.stderr.decode()[-2000:])


def use(place: Path, option: str, outputs: list[bytes]) -> None:
    """Run every command that uses a secret."""
    rows = land(place, "rows.parquet", content(1))
    cluster = place / "cluster.toml"
    cluster.write_text(
        'class = "distributed.LocalCluster"\nworkers = 1\n[options]\nn_workers = 0\nthreads_per_worker = 1\n'
        f'dashboard_address = "127.0.0.1:0"\nname = "{option}"\n'
    )
    cluster.chmod(0o600)
    bucket = locations.RemotePath("s3://models/in/day-1.parquet")
    bucket.put(rows)
    fast = ["--target", "y", "--solver", "fogd", "--frequencies", "20", "--step-size", "0.1"]
    okl(outputs, "train", str(rows), *fast, "--cluster", str(cluster), "--mode", "mix", "--out", str(place / "run"))
    places = ["s3://models/in", "--registry", "s3://models/registry"]
    okl(outputs, "retrain", "m", *places, *fast, "--key", "hour")
    locations.RemotePath("s3://models/in/day-2.parquet").put(land(place, "more.parquet", content(2)))
    okl(outputs, "deploy", places[0], "--retrain", "m", *places[1:], *fast, "--key", "hour")
    process = subprocess.run(
        ["prefect", "deployment", "run", "okl-retrain/m", "--watch"], capture_output=True, check=False, timeout=300
    )
    outputs += [process.stdout, process.stderr]
    print(f"the deployment: exit code {process.returncode}", flush=True)
    registry = ["--registry", "s3://models/registry"]
    okl(outputs, "predict", "m@champion", "s3://models/in/day-2.parquet", *registry, "--out", "s3://models/scores")
    okl(outputs, "models", "show", "m", *registry)
    okl(outputs, "status")


def places_of(secret: str, places: dict[str, bytes]) -> list[str]:
    """Return the names of the places that contain the secret."""
    return sorted({name for name, text in places.items() if secret.encode() in text})


def main() -> None:
    """Run everything, search, print where each secret was found."""
    key, option = secrets.token_hex(20), f"option-{secrets.token_hex(16)}"
    outputs: list[bytes] = []
    with tempfile.TemporaryDirectory(prefix="okl-secrets-") as folder, pytest.MonkeyPatch.context() as patch:
        place, home = Path(folder), Path(folder) / "home"
        home.mkdir(mode=0o700)
        with bucket_served("models", home), command_lines() as lines:
            patch.setenv("AWS_SECRET_ACCESS_KEY", key)
            okl(outputs, "up", "--workers", "1")
            try:
                state, login = live_state(stack_folder(home)), stack_login(home)
                assert state is not None
                patch.setenv("PREFECT_API_URL", state.url)  # as eval "$(okl up)" does
                patch.setenv("PREFECT_API_AUTH_STRING", login)
                use(place, option, outputs)
            finally:
                okl(outputs, "down", "--force")
            files = {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}
            store = locations.file_system("s3://models")[0]
            objects = {f"s3://{name}": store.cat_file(name) for name in store.find("models")}
    del files["cluster.toml"]
    others = {f"output {at}": text for at, text in enumerate(outputs)} | {"command line": b"\n".join(lines)}
    print(f"{len(files)} files, {len(objects)} objects, {len(outputs)} outputs, {len(lines)} command lines")
    expected = {"key of S3": [], "option of the cluster file": [], "Prefect's login": ["home/prefect/login"]}
    for (label, expected_places), secret in zip(expected.items(), (key, option, login), strict=True):
        where = places_of(secret, files | objects | others)
        print(f"{label}: {', '.join(where) or 'nowhere'}")
        if where != expected_places:
            sys.exit(1)


if __name__ == "__main__":
    main()
