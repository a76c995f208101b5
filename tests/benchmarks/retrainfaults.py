"""Retraining on a disk that becomes full at any moment, and on one that is read-only.

    python -m tests.benchmarks.retrainfaults [STEPS]

Needs root, as it mounts file systems in memory. A registry with a champion is on one of them; another shard has
arrived. STEPS times (24 by default) a file limits the free space so that the retraining gets a little further than the
previous one: from no space to all that it needs. Each time it must end with one sentence, or publish; the champion must
be whole, and the previous one if nothing was published; with free space again, the next run completes. Then the file
system is made read-only: a retraining reports it, and scoring still works. At the end every shard is in the champion's
lineage once, and the folder contains only versions after two prunings.
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
    """Mount a small file system in memory."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "okl-tests", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def settings_for(place: Path, registry: Path) -> RetrainSettings:
    """Return the settings of a retraining."""
    return RetrainSettings.model_validate({
        "name": "m", "source": str(place / "in"), "registry": str(registry), "settle_seconds": 0,
        "publish_if": "not worse", "ingest": {"scale": "standard", "keys": ["hour"]},
        "train": {"frequencies": 200, "bandwidth": 1.0, "seed": 1, "step_size": 0.5, "threads": 1},
    })  # fmt: skip


def attempt(settings: RetrainSettings) -> tuple[str, str]:
    """Retrain; return the last stage and the error message, or the outcome."""
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
    """Retrain with more and more free space; return how many shards have arrived."""
    settings, model = settings_for(place, registry), Registry(registry).model("m")
    land(place / "in", "day-000.parquet", content(0, ROWS))
    print("at first:", attempt(settings))
    before = os.statvfs(registry)
    land(place / "in", "day-001.parquet", content(1, ROWS))
    print("with room:", attempt(settings))
    after = os.statvfs(registry)
    needed = (before.f_bavail - after.f_bavail) * before.f_frsize
    print(f"one retraining takes {needed / 1024:.0f} KiB of the disk")
    stages, filler = Counter[str](), registry / "filler"
    for step in range(steps):
        land(place / "in", f"day-{step + 2:03d}.parquet", content(step + 2, ROWS))
        champion = model.state().champion
        fill(filler, int(1.1 * needed * step / steps))
        stage, message = attempt(settings)
        stages[stage] += 1
        version = Registry(registry).model("m").version()
        version.verify()
        version.load()
        assert version.number == champion or stage in ("done", "report"), (stage, message)
        print(f"  {int(1.1 * needed * step / steps) // 1024:5} KiB: {stage}: {message}")
        filler.unlink()
        stage, message = attempt(settings)
        assert stage == "done", (stage, message)
    print(f"full disk, by stage: {dict(stages)}")
    return steps + 2


def read_only(place: Path, registry: Path) -> None:
    """Retrain, promote and score on a read-only disk."""
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
    """Print each outcome; exit code 1 if a row is lost or duplicated."""
    with tempfile.TemporaryDirectory() as name, disk(Path(name) / "registry") as registry:
        place = Path(name)
        os.environ["OKL_HOME"] = str(place / "home")
        arrived = full(place, registry, int(steps)) + 1
        read_only(place, registry)
        model = Registry(registry).model("m")
        lineage: list[Any] = [shard for version in model.ancestry(model.version()) for shard in version.lineage.shards]
        counts = Counter(shard["sha256"] for shard in lineage)
        accepted = [version.sha256 for version in ShardStore(registry / "m" / "data").accepted()]
        right = counts == Counter(accepted) and len(accepted) == arrived
        print(f"{len(counts)} shards in the lineage, {arrived} arrived; each once: {right}")
        for _ in range(2):
            model.prune(keep=1)
        folders = {version.published.folder for version in model.versions() if not version.pruned}
        left = [str(path.relative_to(registry)) for path in registry.rglob(".*")]
        left += [path.name for path in (registry / "m" / "versions").iterdir() if path.name not in folders]
        print("left over:", left or "nothing")
        sys.exit(0 if right and not left else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
