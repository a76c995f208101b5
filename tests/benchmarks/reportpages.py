"""Reports in a real browser: `python -m tests.benchmarks.reportpages FOLDER [KIND ...]`.

Makes a run of every kind whose report has its own sections (two classes, several, a hundred, a regression, certificates
of each kind, constraints, tracking, workers, a run published after another, a retraining, a comparison, a table of a
paper). Headless Chromium writes pictures (PNG) of each report to FOLDER, at the width of a phone (360 pixels) and of a
desktop (1280), light and dark, and prints it to a PDF.

Every page must be no wider than its window, with every picture drawn and described in words, text of at least 12 pixels
with a contrast of 4.5 or more, no exception in the browser, and below 700 kB. Failed checks are printed, and the exit
code is then 1. The pictures themselves are for people to review. Needs Chromium and OKL_DATA.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import okl
from okl.foundation.locations import place_of
from okl.lifecycle.retrain import retrain
from okl.lifecycle.versions import publish_trained
from okl.models.registry import Registry
from okl.papers.run import reproduce
from okl.papers.settings import ReproduceSettings
from tests.benchmarks.browser import Browser, browser
from tests.lifecycle.stories import settings as retrain_settings
from tests.lifecycle.stories import shards

PHONE, DESK = 360, 1280
LEAST_CONTRAST, LEAST_PIXELS, MOST_BYTES, MOST_HEIGHT = 4.5, 12.0, 700_000, 12_000
LIMITED = ("abs(covariance(f71)) <= 0.01", "abs(covariance(f72)) <= 0.01")
RUNS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "default": ("magic", {"ingest": {"target": "y", "holdout": 0.2}}),
    "binary": ("magic", {"solver": "fogd", "ingest": {"target": "y", "holdout": 0.2}}),
    "probabilities": ("spambase", {"solver": "fogd", "loss": "logistic", "ingest": {"target": "y", "holdout": 0.2}}),
    "multiclass": ("satimage", {"solver": "fogd", "frequencies": 200}),
    "letters": ("letter", {"solver": "nogd"}),
    "hundred": ("hundred", {"solver": "fogd", "ingest": {"target": "product group"}}),
    "regression": ("cadata", {"solver": "fogd", "frequencies": 200, "ingest": {"target": "y", "holdout": 0.2}}),
    "regret": ("a9a", {"solver": "fogd", "radius": 30.0, "certify": True, "bandwidth": 3.0, "step_size": 1.0}),
    "c-svm": ("svmguide3", {"solver": "c-svm", "frequencies": 100}),
    "scs": ("a9a", {"solver": "scs", "frequencies": 100}),
    "constraints": ("a9a", {"solver": "fogd", "radius": 30.0, "constraints": LIMITED}),
    "tracked": ("electricity", {"solver": "fogd", "track": True, "certify": True, "radius": 10.0}),
    "workers": ("satimage", {"solver": "fogd", "frequencies": 200, "workers": 2}),
}
OTHERS = ("published", "retraining", "compared", "reproduced")


class Checks:
    """Checks pages, and collects failed checks."""

    def __init__(self, page: Browser, folder: Path) -> None:
        self.page, self.folder = page, folder
        self.wrong: list[str] = []

    def all_ways(self, kind: str, report: Path) -> None:
        """Check a report at the widths of phone and desktop, light and dark, and printed."""
        size = report.stat().st_size
        self._expect(size < MOST_BYTES, f"{kind}: {size:,} bytes")
        for width in (PHONE, DESK):
            for dark in (False, True):
                self.page.look(width, 900, dark)
                self.page.open(f"file://{report}")
                self._check(f"report-{kind}-{width}-{'dark' if dark else 'light'}")
        self._expect(self.page.printed(self.folder / f"report-{kind}.pdf") > 10_000, f"{kind}: nothing was printed")

    def _check(self, name: str) -> None:
        page = self.page
        page.run("document.querySelectorAll('details').forEach(one => one.open = true)")
        overflow, pictures, texts = page.overflow(), page.pictures(), page.contrasts()
        self._expect(overflow <= 0, f"{name}: {overflow} pixels wider than its window")
        for one in pictures:
            self._expect(one["natural"] > 0 < one["shown"], f"{name}: not drawn: {one}")
            self._expect(len(one["alt"]) > 20, f"{name}: not told in words: {one}")
        for one in texts:
            self._expect(one["ratio"] >= LEAST_CONTRAST, f"{name}: faint: {one}")
            self._expect(one["size"] >= LEAST_PIXELS, f"{name}: small: {one}")
        self._expect(len(texts) > 50, f"{name}: {len(texts)} texts")
        self._expect(not page.exceptions + page.logged, f"{name}: {page.exceptions} {page.logged}")
        page.exceptions.clear()
        page.logged.clear()
        page.run("document.querySelectorAll('details').forEach(one => one.open = false)")
        page.shoot(self.folder / f"{name}.png")
        least = min(one["ratio"] for one in texts)
        print(f"{name}: {len(pictures)} pictures, {len(texts)} texts, contrast {least:.1f} at least", flush=True)

    def _expect(self, holds: bool, message: str) -> None:
        if not holds:
            self.wrong.append(message)
            print(f"WRONG {message}", flush=True)


def learn(kind: str, data: Path, scratch: Path) -> Path:
    """Make a run of a kind, and return the path of its report."""
    if kind == "retraining":
        return retrained(scratch / kind)
    if kind == "published":
        return published(data, scratch / kind)
    if kind == "compared":
        settings: dict[str, Any] = {
            "models": "ridge,fogd,c-svm",
            "rows": 500,
            "ingest": {"target": "y"},
            "out": str(scratch / kind),
        }
        okl.compare(str(data / "spambase.parquet"), **settings)
        return scratch / kind / "report.html"
    if kind == "reproduced":
        settings = {"datasets": ("german", "spambase"), "repeats": 2, "out": str(scratch / kind)}
        reproduce(ReproduceSettings.model_validate({"table": "lu2016-table5", "data": str(data), **settings}))
        return scratch / kind / "report.html"
    source, options = RUNS[kind]
    file = hundred(scratch) if source == "hundred" else data / f"{source}.parquet"
    defaults: dict[str, Any] = {"ingest": {"target": "y"}, "name": kind, "out": str(scratch / kind)}
    okl.train(str(file), **defaults | dict(options))
    return scratch / kind / "report.html"


def hundred(scratch: Path) -> Path:
    """Write rows of a hundred classes with close centres, and return the path."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 100, 12_000)
    inputs = 1.4 * rng.normal(size=(100, 8))[groups] + rng.normal(size=(12_000, 8))
    columns: dict[str, Any] = {f"x{number}": column for number, column in enumerate(inputs.T)}
    names = np.array([f"group {number:03d}" for number in range(100)])[groups]
    pq.write_table(pa.table(columns | {"product group": names}), scratch / "hundred.parquet")
    return scratch / "hundred.parquet"


def published(data: Path, scratch: Path) -> Path:
    """Return the report of a version that was published after another one."""
    model = Registry(scratch / "registry").model("spam")
    for number, passes in enumerate((1, 5)):
        run = scratch / f"run-{number}"
        given = {"target": "y", "holdout": 0.2}
        okl.train(
            str(data / "spambase.parquet"),
            solver="fogd",
            passes=passes,
            ingest=given,
            out=str(run),
            name="spam",
        )
        version = publish_trained(model, place_of(str(run)), promote=True).version
    return Path(str(version.files)) / "report.html"


def retrained(scratch: Path) -> Path:
    """Return the report of a third retraining, which rejected one shard."""
    (scratch / "in").mkdir(parents=True)
    shards(scratch, 1, 2)
    retrain(retrain_settings(scratch))
    for day in (3, 4):
        shards(scratch, day)
        retrain(retrain_settings(scratch))
    shards(scratch, 5)
    shards(scratch, 6, flipped=True)
    return Path(retrain(retrain_settings(scratch))["report"])


def main(folder: str, *kinds: str) -> None:
    """Make the runs, and check their reports."""
    out, data = Path(folder), Path(os.environ["OKL_DATA"])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        os.environ["OKL_HOME"] = str(scratch / "home")
        reports = {kind: learn(kind, data, scratch) for kind in kinds or (*RUNS, *OTHERS)}
        with browser(scratch / "profile") as page:
            checks = Checks(page, out)
            for kind, report in reports.items():
                checks.all_ways(kind, report)
    print("all as it must be" if not checks.wrong else f"{len(checks.wrong)} things are not as they must be")
    sys.exit(1 if checks.wrong else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
