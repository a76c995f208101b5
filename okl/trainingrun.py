"""The story of a run, stage by stage: ingest, plan, learn, evaluate, certify, save, report."""

from __future__ import annotations

import json
import secrets
import shutil
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from okl.accelerated.solver import AcceleratedSolver
from okl.account import Account
from okl.beginning import open_data, open_folder
from okl.checkpoints.keeper import MAIN, RunKeeper
from okl.checkpoints.origin import Origin, in_mode_of, refuse_other_origin
from okl.choosing.choice import choose
from okl.configuration import TrainSettings
from okl.errors import DivergedError
from okl.execution import open_for
from okl.execution.opened import Opened
from okl.learning import learn, learn_linear
from okl.planning import learnt_columns, make_solver, run_folder
from okl.planning.memory import settle_memory
from okl.progress import NullObserver, Observer
from okl.results import flat_figures, split_metrics
from okl.runlog import naming, run_logger
from okl.solvers import Solver
from okl.spans import recording
from okl.store.dataset import Dataset
from okl.store.manifest import is_dataset
from okl.store.model import save_model
from okl.store.places import Place
from okl.store.publishing import run_place
from okl.store.report import markdown_report, text_summary, write_report
from okl.store.timelines import observe
from okl.timeline import Timeline

VECTORS = "vectors"
_LOG = run_logger()


@dataclass(eq=False)
class TrainingRun:
    """One run: call the stages of `okl.training.stages_of` in order, then `close`, whatever happened.

    What a run leaves that did not complete is removed then, unless it can be gone on with.

    resume : unfinished folder of a run that is gone on with; key : by which whoever began it finds it again
    """

    settings: TrainSettings
    observer: Observer = field(default_factory=NullObserver)
    resume: Path | None = None
    key: str = ""

    def __post_init__(self) -> None:
        self._place = run_place(run_folder(self.settings))
        self._begun = time.perf_counter()
        self._timeline, self._notes = Timeline(), ExitStack()
        self._result: dict[str, Any] = {}
        self._account = Account(self._place)
        self._running = Opened(lambda: open_for(self.settings, self.folder.name))
        self._keeper: RunKeeper | None = None
        self._scratch: Path | None = None
        self._begun_with: dict[str, Any] | None = None

    @property
    def folder(self) -> Place:
        """Where the run is kept once it is complete."""
        return self._place.folder

    @property
    def data(self) -> Dataset:
        """The data set that is learnt."""
        return self._account.data

    def ingest(self) -> dict[str, Any]:
        """Open the data set, or make one from the source in the run's folder."""
        self._notes.enter_context(recording(self._timeline))
        self._notes.enter_context(naming(self.folder.name))
        self._timeline.stage("ingest")
        about = open_folder(self._place, self.settings, self.resume)
        data = open_data(self._place, self.settings, self.resume is not None, self._ingest_progress, self._running)
        named = None if is_dataset(self.settings.data) else self.settings.data
        self._account.data = learnt_columns(self.settings, data, named)
        self._origin = Origin.of(self.settings, self.data, self.key)
        if about is not None:
            self._begun_with = about["settings"]
            self._origin = self._origin.going_on(about)
            refuse_other_origin(Origin(**about), self._origin, self.data.folder, str(self.folder))
        return {"rows": {name: self.data.rows(name) for name in ("train", "test")}, "shards": len(self.data.shards)}

    def plan(self) -> dict[str, Any]:
        """Start workers, draw the map, settle bandwidth and step size, and compile; or find where all that stands."""
        self._timeline.stage("plan")
        execution = self._running()
        self._settle()
        settings = self.settings
        self._account.memory = memory = settle_memory(settings, self.data, execution)
        _LOG.info("%s: %s", self.folder.name, memory.sentence(execution.n_workers))
        self.solver = self._make_solver()
        self._keeper = RunKeeper(
            self._place.beside,
            self._origin,
            settings.checkpoint_seconds,
            settings.checkpoint_rounds,
            {"data": self.data} | ({} if self._scratch is None else {"scratch": self._scratch}),
            self._scratch,
            self._begun,
        )
        kept = self._keeper.resume()
        self._begin: Any = self.solver.start(self.data, execution) if kept is None else kept
        return self.solver.chosen(self._begin if kept is None else kept.state)

    def learn(self) -> dict[str, Any]:
        """The loop."""
        self._timeline.stage("learn")
        keeper, execution = self._keeping(), self._running()
        try:
            self._account.learnt = learnt = learn(
                self.solver, self._begin, self.data, execution, self.observer, keeper.of(MAIN)
            )
        except DivergedError:
            self._place.discard()
            raise
        # the linear model of `evaluate` has rounds of its own
        self._account.traffic = keeper.total_traffic(execution)
        fast = self._account.rows_per_second(self.settings)
        return {"rows": self.data.rows("train"), "seconds": learnt.seconds, "rows_per_second": fast}

    def evaluate(self) -> dict[str, Any]:
        """Measure the model on both splits, beside the majority or mean predictor and a linear model."""
        self._timeline.stage("evaluate")
        account, execution, settings = self._account, self._running(), self.settings
        account.linear = learn_linear(settings, self.solver, self.data, execution, self._keeping())
        account.measure(settings, execution)
        return {split: split_metrics(self.data.schema, account.tallies, split, "model") for split in account.tallies}

    def certify(self) -> dict[str, Any]:
        """Prove what an online run lost to the best weights in hindsight, or how far Pegasos is from the optimum."""
        self._timeline.stage("certify")
        proof = self._account.prove(self.settings, self._running(), self.observer)
        return {name: value for name, value in proof.as_json().items() if name not in ("horizons", "comparisons")}

    def save(self) -> dict[str, Any]:
        """Write the model directory."""
        self._timeline.stage("save")
        model = self._account.model(self.settings, self._running().processors)
        self._account.weights_sha256 = save_model(model, self._place.beside / "model")
        return {"weights_sha256": self._account.weights_sha256}

    def report(self) -> dict[str, Any]:
        """Write result.json and report.html, and give the run's folder its name: from here on it is complete."""
        self._timeline.finish()
        told = self._account.as_json(self.settings, self._keeping(), self._running())
        self._result = told | observe(self._timeline, self._running(), self._place.beside)
        write_report(self._result, self._place.beside / "report.html")
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
        (self._place.beside / "result.json").write_text(json.dumps(self._result, indent=1, allow_nan=False))
        self._place.complete()
        return {"run": str(self.folder)}

    def close(self) -> None:
        """Free workers, and remove everything of a run that did not complete, unless it can be gone on with."""
        try:
            self._running.close()
        finally:
            if self._keeper is not None and self._place.resumable:
                _LOG.warning("%s is unfinished: okl train --resume %s goes on with it.", self.folder.name, self.folder)
            self._keeper = None
            self._notes.close()
            self._place.close()

    def result(self) -> dict[str, Any]:
        """The object that `okl train --json` prints."""
        return self._result

    def report_markdown(self) -> str:
        """The report with its pictures inline."""
        return markdown_report(self._result)

    def summary(self) -> str:
        """The plain summary for a terminal."""
        return text_summary(self._result)

    def metrics_table(self) -> list[dict[str, Any]]:
        """One flat row a figure: predictor, split, metric, value."""
        return flat_figures(self._result)

    def _settle(self) -> None:
        """Choose what was left open; after a crash again, to the same choice, in the mode that it was begun in."""
        if self.settings.solver == "auto":
            choice = choose(self.settings, self.data, self.observer)
            self.settings, self._account.choice = choice.settings, choice.record
            self._account.data = learnt_columns(self.settings, self.data)
            for sentence in choice.record["why"]:
                _LOG.info("%s: %s", self.folder.name, sentence)
        # after the choice: what auto means depends on the solver, too
        if self._begun_with is not None:
            self.settings = in_mode_of(self._begun_with, self.settings)

    def _make_solver(self) -> Solver[Any]:
        solver = make_solver(self.settings, self.data)
        if not isinstance(solver, AcceleratedSolver):
            return solver
        # where workers keep what brings back the vectors of one that dies
        self._scratch = self._place.beside / f"{VECTORS}-{secrets.token_hex(4)}"
        self._scratch.mkdir()
        return replace(solver, scratch=self._scratch)

    def _keeping(self) -> RunKeeper:
        assert self._keeper is not None, "plan comes first"
        return self._keeper

    def _ingest_progress(self, done: int, total: int | None) -> None:
        self.observer.advance(done, total or 0, {})
