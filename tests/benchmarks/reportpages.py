"""Reports in a real browser: `python -m tests.benchmarks.reportpages FOLDER [KIND ...]`.

Runs of every kind that has sections of its own are learnt (two classes, several, a hundred, a regression, certificates
of each sort, constraints, tracking, workers, a run published after another, a retraining, a comparison, a table of a
paper). Chromium, without a screen, takes pictures (PNG) of each report into FOLDER, on a phone (360 pixels) and on a
desk (1280), light and dark, and prints it to a PDF.

Asked of every page: no wider than its window; every picture drawn, and told in words; text of at least 12 pixels, with
a contrast of 4.5 or more; no complaint of the browser; below 700 kB. What is not so is printed and ends this with 1.
Looking at the pictures is left to people. Needs Chromium and OKL_DATA.
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


class Looks:
    """Looks at pages, and remembers what is not as it must be."""

    def __init__(self, page: Browser, folder: Path) -> None:
        self.page, self.folder = page, folder
        self.wrong: list[str] = []

    def all_ways(self, kind: str, report: Path) -> None:
        """On a phone and on a desk, light and dark; and printed."""
        size = report.stat().st_size
        self._expect(size < MOST_BYTES, f"{kind}: {size:,} bytes")
        for width in (PHONE, DESK):
            for dark in (False, True):
                self.page.look(width, 900, dark)
                self.page.open(f"file://{report}")
                self._look(f"report-{kind}-{width}-{'dark' if dark else 'light'}")
        self._expect(self.page.printed(self.folder / f"report-{kind}.pdf") > 10_000, f"{kind}: nothing was printed")

    def _look(self, name: str) -> None:
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
        self._expect(not page.complaints + page.logged, f"{name}: {page.complaints} {page.logged}")
        page.complaints.clear()
        page.logged.clear()
        page.run("document.querySelectorAll('details').forEach(one => one.open = false)")
        page.shoot(self.folder / f"{name}.png")
        least = min(one["ratio"] for one in texts)
        print(f"{name}: {len(pictures)} pictures, {len(texts)} texts, contrast {least:.1f} at least", flush=True)

    def _expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.wrong.append(otherwise)
            print(f"WRONG {otherwise}", flush=True)


def learn(kind: str, data: Path, scratch: Path) -> Path:
    """A run of a kind; the path of its report."""
    if kind == "retraining":
        return retrained(scratch / kind)
    if kind == "published":
        return published(data, scratch / kind)
    if kind == "compared":
        asked: dict[str, Any] = {
            "models": "ridge,fogd,c-svm",
            "rows": 500,
            "ingest": {"target": "y"},
            "out": str(scratch / kind),
        }
        okl.compare(str(data / "spambase.parquet"), **asked)
        return scratch / kind / "report.html"
    if kind == "reproduced":
        asked = {"datasets": ("german", "spambase"), "repeats": 2, "out": str(scratch / kind)}
        reproduce(ReproduceSettings.model_validate({"table": "lu2016-table5", "data": str(data), **asked}))
        return scratch / kind / "report.html"
    source, options = RUNS[kind]
    file = hundred(scratch) if source == "hundred" else data / f"{source}.parquet"
    given: dict[str, Any] = {"ingest": {"target": "y"}, "name": kind, "out": str(scratch / kind)}
    okl.train(str(file), **given | dict(options))
    return scratch / kind / "report.html"


def hundred(scratch: Path) -> Path:
    """Rows of a hundred classes, the centres of which lie close."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 100, 12_000)
    inputs = 1.4 * rng.normal(size=(100, 8))[groups] + rng.normal(size=(12_000, 8))
    columns: dict[str, Any] = {f"x{number}": column for number, column in enumerate(inputs.T)}
    names = np.array([f"group {number:03d}" for number in range(100)])[groups]
    pq.write_table(pa.table(columns | {"product group": names}), scratch / "hundred.parquet")
    return scratch / "hundred.parquet"


def published(data: Path, scratch: Path) -> Path:
    """The report of a version that was published after another one."""
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
    """The report of a third retraining, one shard of which was rejected."""
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
    """Learn, and look."""
    out, data = Path(folder), Path(os.environ["OKL_DATA"])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        os.environ["OKL_HOME"] = str(scratch / "home")
        reports = {kind: learn(kind, data, scratch) for kind in kinds or (*RUNS, *OTHERS)}
        with browser(scratch / "profile") as page:
            looks = Looks(page, out)
            for kind, report in reports.items():
                looks.all_ways(kind, report)
    print("all as it must be" if not looks.wrong else f"{len(looks.wrong)} things are not as they must be")
    sys.exit(1 if looks.wrong else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
