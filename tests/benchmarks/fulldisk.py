"""Commands whose disk is full from a random instant on: the model is saved, or there is one sentence.

    python -m tests.benchmarks.fulldisk [RUNS [SEED [COMMAND ...]]]

Needs root, for a file system in memory that holds OKL_HOME, with the database of Prefect. Each COMMAND (train, predict,
retrain) runs undisturbed first; then, twice RUNS (6) times, its disk is filled, but for a random number of bytes,
before it starts or at a random instant, until it ends. "elsewhere": its output is on another disk, and it succeeds, but
for a retraining, which also writes to OKL_HOME. A success always has an output that loads with the same bits, a failure
ends with one sentence and leaves no output, and the same command succeeds when the disk has space again. A line for
each run; the exit code is 1 if one is wrong.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from okl.foundation.locations import file_sha256
from okl.models.registry import Registry
from tests.flows.commandline import without_notice
from tests.flows.environment import child_environment
from tests.rows import curved, write

DISK_BYTES = 64 * 2**20
SMALL = ("--frequencies", "40", "--solver", "fogd", "--threads", "1", "--seed", "1")
Words = tuple[str, ...]
Digest = Callable[[Path], str]


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """Mount a file system in memory."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def fill(disk: Path, free: int) -> None:
    """Fill a disk except for some bytes."""
    status = os.statvfs(disk)
    with suppress(OSError), open(disk / "ballast", "ab") as ballast:  # the disk becomes full during this write
        ballast.write(bytes(max(0, status.f_bavail * status.f_frsize - free)))


def model_digest(out: Path) -> str:
    return file_sha256(out / "model" / "weights.safetensors")


def scores_digest(out: Path) -> str:
    return " ".join(file_sha256(path) for path in sorted(out.glob("*.parquet")))


def registry_digest(out: Path) -> str:
    champion = Registry(out).model("m").version()
    champion.verify()
    return file_sha256(Path(str(champion.folder)) / "model" / "weights.safetensors")


def cases(rows: Path, model: Path) -> dict[str, tuple[Callable[[Path], Words], Digest]]:
    """Return for each command a function of its output folder to its words, and the digest of the output."""

    def train(out: Path) -> Words:
        return ("train", str(rows), "--target", "y", "--out", str(out), "--record", *SMALL)

    def predict(out: Path) -> Words:
        return ("predict", str(model), str(rows), "--out", str(out), "--record")

    def retrain(out: Path) -> Words:
        options = ("--set", "settle_seconds=0", "--set", "publish_if=better", "--record")
        return ("retrain", "m", str(rows.parent), "--target", "y", "--registry", str(out), *options, *SMALL)

    return {"train": (train, model_digest), "predict": (predict, scores_digest), "retrain": (retrain, registry_digest)}


class Case:
    """A command with OKL_HOME on a small disk."""

    def __init__(self, name: str, disk: Path, out: Path, words: Words, digest: Digest, expected: str) -> None:
        self.name, self.disk, self.out, self.digest, self.expected = name, disk, out, digest, expected
        self.words = [sys.executable, "-m", "flows.cli", *words]
        self.environment = child_environment(OKL_HOME=str(disk / "home"))

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.words, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, free: int, seconds: float, must_succeed: bool) -> str:
        """Fill the disk after some seconds (negative: before the start); return the problem, or "" if there is none."""
        process = self.start() if seconds >= 0 else None
        time.sleep(max(0.0, seconds))
        fill(self.disk, free)
        process = process or self.start()
        _, err = process.communicate(timeout=300)
        lines = without_notice(err).splitlines()
        print(
            f"{self.name}: {free:,} bytes free after {seconds:.1f} s: exit code {process.returncode}",
            *lines,
            sep="\n    ",
        )
        (self.disk / "ballast").unlink()
        if (
            "Traceback" in err
            or process.returncode < 0
            or (process.returncode and sum(line.startswith("Error: ") for line in lines) != 1)
        ):
            return "no single sentence"
        if process.returncode and must_succeed:
            return "failed, although its output is on another disk"
        if process.returncode == 0:
            return "" if self.digest(self.out) == self.expected else "other bits"
        if (partial := self.out.with_name(f"{self.out.name}-so-far")).exists() and self.digest(
            partial
        ) != self.expected:
            return "other bits of the model that is kept"
        if self.out.exists() and not (self.out / "m").exists():
            return f"{self.out} is left"
        again = self.start()
        _, err = again.communicate(timeout=300)
        return "" if again.returncode == 0 and self.digest(self.out) == self.expected else f"not mended: {err}"


def main(runs: str = "6", seed: str = "1", *commands: str) -> int:
    """Run all commands; return the number of problems."""
    draw, wrong = random.Random(int(seed)), 0
    with tempfile.TemporaryDirectory(prefix="okl-full-") as name:
        folder = Path(name)
        (folder / "in").mkdir()
        rows = write(folder / "in", curved(3000).drop_columns(["split"]))
        words: Words = ("train", str(rows), "--target", "y", "--out", str(folder / "m"), "--record", *SMALL)
        first_run = Case("", folder, folder / "m", words, model_digest, "").start()  # makes a model and a database
        assert first_run.wait() == 0
        all_cases = cases(rows, folder / "m" / "model")
        for title in commands or all_cases:
            (words_for, digest), usual_seconds, expected = all_cases[title], 0.0, ""
            for number in range(2 * int(runs) + 1):
                elsewhere = number % 2 == 0
                out = folder / ("other" if elsewhere else "disk/out")
                with small_disk(folder / "disk"):
                    if number != 1:  # the second run has no database yet
                        shutil.copytree(folder / "home", folder / "disk" / "home")
                    name = title + (" elsewhere" if elsewhere else "")
                    case = Case(name, folder / "disk", out, words_for(out), digest, expected)
                    if number == 0:
                        start, process = time.monotonic(), case.start()
                        _, err = process.communicate()
                        assert process.returncode == 0, err
                        usual_seconds, expected = time.monotonic() - start, digest(out)
                        print(f"{name}: {usual_seconds:.1f} s undisturbed", flush=True)
                    else:
                        seconds = -1.0 if number < 3 else draw.uniform(0.0, 1.1 * usual_seconds)
                        free = int(2 ** draw.uniform(10, 20)) if draw.random() < 0.5 else 0
                        if problem := case.run(free, seconds, elsewhere and title != "retrain"):
                            wrong += 1
                            print(f"  WRONG: {problem}", flush=True)
                (folder / "disk").rmdir()
                shutil.rmtree(out, ignore_errors=True)
    print(f"{wrong} wrong")
    return wrong


if __name__ == "__main__":
    sys.exit(min(1, main(*sys.argv[1:])))
