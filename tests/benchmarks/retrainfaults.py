"""Places that fail a retraining: a disk that is full at any moment, and one that cannot be written to.

    python -m tests.benchmarks.retrainfaults [STEPS]

needs to be root, as it mounts file systems in memory. A registry with a champion lies on one of them; another shard has
arrived. STEPS times (24 unless said otherwise) a file leaves so much room as lets the retraining come a little further
than the time before: from none to all that it needs. Each time it must end with one sentence, or publish; the champion
must be whole, and the one before if it was not published; and when the room is there again, the next run completes.
Then the file system is made read-only: a retraining says so, and scoring goes on. In the end every shard is in the
champion's lineage once, and nothing but versions is in its folder once it has been pruned twice.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import okl
from okl.foundation.errors import OklError
from okl.lifecycle.retrain import RETRAIN_STAGES, RetrainingRun
from okl.lifecycle.settings import RetrainSettings
from okl.lifecycle.shard_store import ShardStore
from okl.models.registry import Registry
from tests.lifecycle.shards import content, land

ROWS, DISK_BYTES = 4_000, 64 * 2**20


@contextmanager
def disk(folder: Path) -> Iterator[Path]:
    """A small file system in memory."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "okl-tests", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def settings_for(place: Path, registry: Path) -> RetrainSettings:
    """Of a retraining."""
    return RetrainSettings.model_validate({
        "name": "m", "source": str(place / "in"), "registry": str(registry), "settle_seconds": 0,
        "publish_if": "not worse", "ingest": {"scale": "standard", "keys": ["hour"]},
        "train": {"frequencies": 200, "bandwidth": 1.0, "seed": 1, "step_size": 0.5, "threads": 1},
    })  # fmt: skip


def attempt(settings: RetrainSettings) -> tuple[str, str]:
    """Retrain; the stage it came to and the sentence that it ended with, or its outcome."""
    stage = "open"
    try:
        run = RetrainingRun(settings)
        try:
            for stage in RETRAIN_STAGES:
                run.perform_stage(stage)
            return "done", str(run.result()["outcome"])
        finally:
            run.close()
    except OklError as error:
        return stage, str(error)


def fill(file: Path, room: int) -> None:
    """Leave so many bytes of a file system free."""
    status = os.statvfs(file.parent)
    with file.open("wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, max(1, status.f_bavail * status.f_frsize - room))


def full(place: Path, registry: Path, steps: int) -> int:
    """Retrain with ever more room; how many shards have arrived."""
    settings, model = settings_for(place, registry), Registry(registry).model("m")
    land(place / "in", "day-000.parquet", content(0, ROWS))
    print("at first:", attempt(settings))
    before = os.statvfs(registry)
    land(place / "in", "day-001.parquet", content(1, ROWS))
    print("with room:", attempt(settings))
    after = os.statvfs(registry)
    needed = (before.f_bavail - after.f_bavail) * before.f_frsize
    print(f"one retraining takes {needed / 1024:.0f} KiB of the disk")
    fell, filler = Counter[str](), registry / "filler"
    for step in range(steps):
        land(place / "in", f"day-{step + 2:03d}.parquet", content(step + 2, ROWS))
        champion = model.state().champion
        fill(filler, int(1.1 * needed * step / steps))
        stage, told = attempt(settings)
        fell[stage] += 1
        version = Registry(registry).model("m").version()
        version.verify()
        version.load()
        assert version.number == champion or stage in ("done", "report"), (stage, told)
        print(f"  {int(1.1 * needed * step / steps) // 1024:5} KiB: {stage}: {told}")
        filler.unlink()
        stage, told = attempt(settings)
        assert stage == "done", (stage, told)
    print(f"full disk, by stage: {dict(fell)}")
    return steps + 2


def read_only(place: Path, registry: Path) -> None:
    """Retrain, promote and score where nothing can be written."""
    settings, model = settings_for(place, registry), Registry(registry).model("m")
    attempt(settings)
    version = model.version()
    for arrived in ((), ("last.parquet",)):
        for name in arrived:
            land(place / "in", name, content(5_000, ROWS))
        subprocess.run(["mount", "-o", "remount,ro", str(registry)], check=True)
        try:
            print("read-only:", attempt(settings))
            assert okl.load("m@champion", str(registry)).schema == version.load().schema
            for change in (lambda: model.rollback(), lambda: model.prune(keep=1)):
                try:
                    change()
                    raise AssertionError("it was written to")
                except OklError as error:
                    print("read-only:", error)
        finally:
            subprocess.run(["mount", "-o", "remount,rw", str(registry)], check=True)
    print("writable again:", attempt(settings))


def main(steps: str = "24") -> None:
    """Print what became of each, and end with 1 if a row is lost or twice."""
    with tempfile.TemporaryDirectory() as name, disk(Path(name) / "registry") as registry:
        place = Path(name)
        os.environ["OKL_HOME"] = str(place / "home")
        arrived = full(place, registry, int(steps)) + 1
        read_only(place, registry)
        model = Registry(registry).model("m")
        lineage: list[Any] = [shard for one in model.ancestry(model.version()) for shard in one.lineage.shards]
        counts = Counter(shard["sha256"] for shard in lineage)
        accepted = [one.sha256 for one in ShardStore(registry / "m" / "data").accepted()]
        right = counts == Counter(accepted) and len(accepted) == arrived
        print(f"{len(counts)} shards in the lineage, {arrived} arrived; each once: {right}")
        for _ in range(2):
            model.prune(keep=1)
        kept = {one.published.folder for one in model.versions() if not one.pruned}
        left = [str(path.relative_to(registry)) for path in registry.rglob(".*")]
        left += [path.name for path in (registry / "m" / "versions").iterdir() if path.name not in kept]
        print("left over:", left or "nothing")
        sys.exit(0 if right and not left else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
