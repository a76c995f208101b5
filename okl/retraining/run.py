"""The story of a retraining: discover, hold, score, learn, evaluate, certify, publish, report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from okl.certificates import gap_proof
from okl.errors import DataError, DivergedError
from okl.evaluation import ConstantPredictor
from okl.execution import open_for
from okl.execution.protocol import Execution
from okl.planning import check_workers
from okl.predictors import Predictor
from okl.progress import NullObserver, Observer, perform
from okl.registry.entry import CHAMPION
from okl.registry.registry import Registry
from okl.retraining.attempts import Attempts
from okl.retraining.beginning import first_reference
from okl.retraining.challenger import Challenger, is_online, learn_shards, same_place, solve_window
from okl.retraining.champion import Known, open_champion
from okl.retraining.decision import TESTS, Decision, Rule
from okl.retraining.intake import Intake
from okl.retraining.judging import Judgement, judge, judged_on
from okl.retraining.lineages import lineage_of, next_model
from okl.retraining.progressive import contradiction, progressive
from okl.retraining.record import ShardRecord
from okl.retraining.settings import RetrainSettings
from okl.retraining.shardstore import ShardStore
from okl.retraining.versionfiles import write_version
from okl.retraining.wording import report_markdown, summary_sentence
from okl.store.dataset import Schema
from okl.subgradient.solver import SubgradientSolver

RETRAIN_STAGES = ("discover", "hold", "score", "learn", "evaluate", "certify", "publish", "report")


def retrain(settings: RetrainSettings, observer: Observer | None = None) -> dict[str, Any]:
    """Retrain a model in this process (and on Dask if the settings say so), without Prefect.

    Returns
    -------
    what `okl retrain --json` prints: model, outcome, version, reason, shards, progressive, decision, metrics, ...

    Raises
    ------
    OklError : one sentence that says what is wrong; the champion stays as it is
    """
    check_workers(settings.train)
    return perform(RetrainingRun(settings, observer or NullObserver()), RETRAIN_STAGES)


@dataclass(eq=False)
class RetrainingRun:
    """One retraining: call the stages of RETRAIN_STAGES in order, then `close`, whatever happened.

    A process may be killed in every stage: the next run goes on from the champion and the shards that are there. A run
    without new shards does nothing; so does one whose shards were judged before.
    """

    settings: RetrainSettings
    observer: Observer = field(default_factory=NullObserver)

    def __post_init__(self) -> None:
        self._model = Registry(self.settings.registry).model(self.settings.name)
        self.store = ShardStore(self._model.folder / "data")
        self._attempts = Attempts(self.store.place)
        self._begun = time.perf_counter()
        self._execution: Execution | None = None
        self._challenger: Challenger | None = None
        self._judgement: Judgement | None = None
        self._certificate: dict[str, Any] | None = None
        self._scores: list[dict[str, Any]] = []
        self._pending: list[ShardRecord] = []
        self._outcome, self._reason = "nothing new", "No shard is new."
        self._version: int | None = None
        self._result: dict[str, Any] = {}

    def discover(self) -> dict[str, Any]:
        """See what has arrived, and which of it is new since the champion."""
        self.known = Known(open_champion(self._model), self.store.records())
        self.intake = Intake(self.settings, self.store, self.known)
        return {"champion": self.known.parent} | self.intake.discover()

    def hold(self) -> dict[str, Any]:
        """Hold new shards to the contract: accept them, or quarantine them with a reason.

        Raises
        ------
        DataError : a shard is bad, and the settings say to stop
        """
        if self.intake.new:
            champion = self.known.champion
            reference = self.store.reference() or self.store.set_reference(
                champion.model.schema if champion else first_reference(self.intake.new, self.settings.ingest)
            )
            self.intake.hold(reference, self._advance)
        self.known = Known(self.known.champion, self.store.records())
        self._pending = self.intake.pending(self.known)
        self._stop_at((*self.intake.bad, *self.intake.standing))
        return {"accepted": len(self.intake.accepted), "bad": len(self.intake.bad), "pending": len(self._pending)}

    def score(self) -> dict[str, Any]:
        """Let the champion score the new rows before they are learnt; quarantine what contradicts it."""
        champion = self.known.champion
        if champion is None or not self._pending:
            return {"shards": 0}
        kept = []
        for record in self._pending:
            data, known = self.store.dataset(record), champion.model.schema
            found = progressive(data, known, champion.model.predictor, self._running())
            against = contradiction(record.name, known.task, found, self.settings.contract.level)
            self._scores.append({"shard": record.name, **found.as_json(), "contradicts": against is not None})
            if against is None or record.released or not self.settings.contradiction:
                kept.append(record)
            else:
                self.intake.bad.append(self.store.quarantine(record, against))
        contradicting, self._pending = len(self._pending) - len(kept), kept
        self._stop_at(self.intake.bad)
        return {"shards": len(self._scores), "contradicting": contradicting}

    def learn(self) -> dict[str, Any]:
        """Learn a challenger, unless there is nothing to learn, or this was judged before."""
        if not self._pending:
            self._reason = "No new shard is left to learn." if self.intake.bad else self._reason
            return {"skipped": self._reason}
        settings = same_place(self.settings.train, str(self.store.place))
        online = is_online(settings, self.store.dataset(self._pending[0]))
        records, begin, why = self._to_learn(online)
        self._lineage = lineage_of(self.settings, self.known, records, online, fresh=begin is None)
        if (before := self._attempts.find(self._model, self._lineage)) is not None:
            self._outcome, self._reason = "judged before", before
            return {"skipped": before}
        try:
            if online:
                self._challenger = learn_shards(settings, self.store, begin, records, self._running(), self.observer)
            else:
                window = self._accepted()[-self.settings.window_shards :]
                self._challenger = solve_window(settings, self.store, window, records, self._running(), self.observer)
        except DivergedError as error:
            self._outcome, self._reason = "kept", f"Kept: the challenger diverged. {error}"
            return {"diverged": str(error)}
        told = {"how": self._challenger.how, "seconds": self._challenger.seconds}
        return told | ({"anew": why} if why else {})

    def evaluate(self) -> dict[str, Any]:
        """Judge champion and challenger on the same reserved rows; before the first version, a constant is champion."""
        challenger, champion = self._challenger, self.known.champion
        if challenger is None:
            return {"skipped": self._reason}
        learnt = {*self.known.learnt, *(record.sha256 for record in challenger.learnt)}
        accepted = [record for record in self._accepted() if record.sha256 in learnt]
        schema = challenger.data.schema
        chosen = judged_on(accepted, self.settings.holdout_shards, schema)
        first: Predictor = champion.model.predictor if champion else ConstantPredictor(schema)
        other = "the champion" if champion else self._constant(schema)
        if chosen:
            one = self.settings
            rule = Rule(one.publish_if, one.margin, one.level, one.slice_margin, one.guard_shards)
            parts = (self._running(), self.settings.slices, other)
            self._judgement = judge(self.store, chosen, first, challenger.predictor, rule, *parts)
        else:
            nothing = Decision("keep", "Kept: there is no reserved row to judge on.", TESTS[schema.task], None, {})
            self._judgement = Judgement(nothing, (), {}, 0)
        self._reason = self._judgement.decision.reason
        return {"decision": self._judgement.decision.kind, "reason": self._reason}

    def certify(self) -> dict[str, Any]:
        """Prove how far a batch solution is from its optimum; what an online learner lost is told by its curve."""
        challenger = self._challenger
        if challenger is None or challenger.online:
            return {"skipped": "an online learner" if challenger else self._reason}
        solver: SubgradientSolver = challenger.solver  # type: ignore[assignment]  # or an accelerated one, alike
        self._certificate = gap_proof(solver, challenger.state).as_json()
        return {name: value for name, value in self._certificate.items() if isinstance(value, int | float | str)}

    def publish(self) -> dict[str, Any]:
        """Publish the challenger as champion in one step, or keep the champion.

        Raises
        ------
        ConflictError : somebody else moved the champion meanwhile; nothing is published
        RegistryError, DataError : the registry cannot be written to; nothing is published
        """
        challenger, judgement = self._challenger, self._judgement
        if challenger is None or judgement is None:
            return {"skipped": self._reason}
        if self.settings.dry_run or not judgement.decision.publish:
            self._outcome = "dry run" if self.settings.dry_run else "kept"
            return {"outcome": self._outcome}
        self._outcome = "published"
        model = next_model(challenger, self.known, self.settings, tuple(self._running().processors))
        lineage = self._lineage.measured(judgement, self._certificate, challenger)
        self._result = self._collect()

        def write(into: Path) -> None:
            write_version(into, model, challenger, self._result)

        expected = {CHAMPION: self.known.parent}  # whoever else has published meanwhile has won
        published = self._model.publish(write, lineage.lineage, promote=True, expected=expected, why=self._reason)
        self._version = published.version.number
        return {"version": self._version, "new": published.new}

    def report(self) -> dict[str, Any]:
        """Note what was decided, so that the same shards are not judged again, and tell it."""
        self._result = self._collect()
        if self._outcome == "kept":
            self._attempts.keep(self._model, self._lineage, self._reason)
        return {"outcome": self._outcome, "reason": self._reason}

    def close(self) -> None:
        """Free workers."""
        if self._execution is not None:
            self._execution.close()
            self._execution = None

    def result(self) -> dict[str, Any]:
        """The object that `okl retrain --json` prints."""
        return self._result

    def report_markdown(self) -> str:
        """What was new, what was rejected, both models' figures, the decision and its reason."""
        return report_markdown(self._result)

    def summary(self) -> str:
        """One sentence for a terminal."""
        return summary_sentence(self._result)

    def metrics_table(self) -> list[dict[str, Any]]:
        """One flat row a figure: predictor, metric, value."""
        return [
            {"predictor": name, "metric": metric, "value": value}
            for name, figures in (self._result.get("metrics") or {}).items()
            for metric, value in figures.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        ]

    def _stop_at(self, bad: Sequence[ShardRecord]) -> None:
        if self.settings.on_bad == "stop" and bad:
            raise DataError(
                f"{bad[0].reason} It is quarantined, and on_bad = stop: nothing was learnt. Take the file away, or "
                f"learn it anyway: release {bad[0].key}."
            )

    def _to_learn(self, online: bool) -> tuple[list[ShardRecord], Any, str]:
        """Shards to learn, what to begin with (None: anew), and why anew."""
        champion = self.known.champion
        if champion is None or not online:
            return self._pending, None, ""
        begin, why = champion.state()
        if begin is None:  # then all shards, as nothing of them is there
            return [record for record in self._accepted() if self._wanted(record)], None, why
        return self._pending, begin, ""

    def _wanted(self, record: ShardRecord) -> bool:
        return record.sha256 in self.known.learnt or record in self._pending

    def _accepted(self) -> list[ShardRecord]:
        quarantined = {record.sha256 for record in self.intake.bad}
        accepted = (one for one in self.known.records.values() if one.status == "accepted")
        wanted = (one for one in accepted if one.sha256 not in quarantined and self._wanted(one))
        return sorted(wanted, key=lambda one: one.order)

    def _running(self) -> Execution:
        if self._execution is None:
            self._execution = open_for(self.settings.train, self.settings.name)
        return self._execution

    def _advance(self, done: int, total: int | None) -> None:
        self.observer.advance(done, total or 0, {})

    def _constant(self, schema: Schema) -> str:
        return "the mean so far" if schema.task == "regression" else "the majority class"

    def _collect(self) -> dict[str, Any]:
        challenger, judgement = self._challenger, self._judgement
        return {
            "model": self.settings.name,
            "registry": str(self._model.folder.parent),
            "outcome": self._outcome,
            "reason": self._reason,
            "version": self._version,
            "parent": self.known.parent,
            "shards": self.intake.as_json(self._pending),
            "progressive": self._scores,
            "how": challenger.how if challenger else None,
            "learning": list(challenger.curve) if challenger else [],
            "decision": judgement.decision.as_json() if judgement else None,
            "judged_on": list(judgement.shards) if judgement else [],
            "metrics": {name: dict(one) for name, one in judgement.metrics.items()} if judgement else {},
            "certificate": self._certificate,
            "seconds": challenger.seconds if challenger else 0.0,
            "total_seconds": time.perf_counter() - self._begun,
            "bytes_read": (challenger.bytes_read if challenger else 0) + (judgement.bytes_read if judgement else 0),
            "settings": self.settings.model_dump(mode="json"),
        }
