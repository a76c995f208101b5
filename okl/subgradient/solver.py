"""Cutting planes on samples that grow until the bound over all rows is good enough: a solver over shards."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from okl.accelerated.sharded.beside import Beside
from okl.accelerated.sharded.rounds import Log
from okl.accelerated.solver import MapChoice
from okl.checks import check_at_least, check_positive
from okl.errors import ConfigError, DataError
from okl.execution.protocol import Execution
from okl.predictors import LinearPredictor, Predictor
from okl.solvers import Convergence, Outcome
from okl.store.dataset import Dataset, Schema
from okl.subgradient.certificate import REPLICATES, SOLVED_TO, FullBound, exact_bound, replicated_bound
from okl.subgradient.drawing import Design
from okl.subgradient.growth import FIRST_SAMPLE, Plan, Seen
from okl.subgradient.losses import PiecewiseLinear
from okl.subgradient.replicates import draw_inputs, fresh
from okl.subgradient.scs import Scs
from okl.subgradient.sharded.beside import OpenSample
from okl.subgradient.sharded.commands import Drawn
from okl.subgradient.sharded.descent import Descent, begin, iterate, place
from okl.subgradient.sharded.rows import SampledRows
from okl.subgradient.wolfe import Wolfe
from okl.types import FloatArray, Precision

MAP_SAMPLE = 1000
LOOKS, LOOK_SHARE = 3, 0.125  # fresh samples, and rows of each over those of the sample, to see what a point is worth
_SAMPLE_SEED, _MAP_SEED, _LOOK_SEED, _PROOF_SEED = 1, 2, 3, 4


@dataclass(frozen=True, eq=False)
class SubgradientState:
    """Everything that evolves; never written into.

    rows : of all shards; chosen : the map's choices
    samples : rows of each sample so far; descent : where the last one stands
    seen : what fresh samples told of a point last; None before they were asked
    proof : over all rows, of the point that stands; None before one was tried; attempts : so far
    drawn_rows, bytes_read : of all samples, those of proofs among them
    one_class : samples whose rows were all of one class
    """

    rows: SampledRows
    chosen: dict[str, Any]
    samples: tuple[int, ...]
    descent: Descent
    seen: Seen | None
    proof: FullBound | None
    attempts: int
    drawn_rows: int
    bytes_read: int
    one_class: int

    @property
    def share(self) -> float:
        """Of all rows in the sample."""
        return self.descent.shares[-1]


@dataclass(frozen=True)
class SubgradientSolver:
    """Minimise lam/2 ||w||^2 + mean_i loss(y_i, <w, z(x_i)>) over all rows, seen through samples.

    A sample is solved by cuts, with a line search to the minimum of their model; then it grows, and the point goes on
    from where it is. It is over when the bound over ALL rows is below `gap`: by fresh samples at a stated confidence,
    or exactly once all rows are in the sample.

    Parameters
    ----------
    loss : piecewise linear; maps : which feature map
    lam : float > 0; gap : float > 0, of the objective, absolute
    confidence : in (0, 1), of the gap over all rows, however often one was tried
    first_sample : rows, None for 1000 or all; all_rows : begin with all of them: deterministic
    bundle_size : int >= 2, cuts kept; conjugate : Wolfe's directions in place of those to the minimum of a bundle
    constant : whether a constant column gives a bias that is regularised like a weight; otherwise there is none
    max_iterations : of all samples; replicates : fresh samples of a proof
    seed, precision : of the map and of all samples

    Raises
    ------
    ConfigError : a number outside its range
    """

    loss: PiecewiseLinear
    maps: MapChoice
    lam: float = 1e-3
    gap: float = 0.01
    confidence: float = 0.95
    first_sample: int | None = None
    all_rows: bool = False
    bundle_size: int = 100
    conjugate: bool = False
    constant: bool = False
    max_iterations: int = 20_000
    replicates: int = REPLICATES
    seed: int = 0
    precision: Precision = "float32"

    mode = "sum"

    def __post_init__(self) -> None:
        check_positive("lam", self.lam)
        check_positive("gap", self.gap)
        check_at_least("bundle_size", self.bundle_size, 2)
        check_at_least("replicates", self.replicates, 2)
        if self.first_sample is not None:
            check_at_least("first_sample", self.first_sample, 2)
        if not 0.0 < self.confidence < 1.0:
            raise ConfigError(f"confidence = {self.confidence:g}, but it takes a probability between 0 and 1: .95.")

    def check(self, schema: Schema, rows: int | None) -> None:
        """Refuse what can be known without reading rows. rows : to train with, None if nobody knows.

        Raises
        ------
        ConfigError : a loss of another task, fewer rows than the first sample
        DataError : a class without rows
        """
        if self.loss.task != schema.task:
            raise ConfigError(
                f"The loss {self.loss.name!r} is for a {self.loss.task} task, but {schema.target!r} makes this a "
                f"{schema.task} task. Leave the loss to auto, or ingest with --task {self.loss.task}."
            )
        for label, count in zip(schema.labels, schema.class_counts, strict=False):
            if count == 0:
                raise DataError(f"No training row has the label {label!r}: leave the class out, or split otherwise.")
        if rows is not None and self.first_sample is not None and self.first_sample > rows:
            raise ConfigError(
                f"first_sample = {self.first_sample:,}, but there are {rows:,} training rows. Leave it out, or take "
                "fewer."
            )

    def start(self, data: Dataset, execution: Execution) -> SubgradientState:
        """Draw the map and the first sample, and take the first cut, at 0.

        Raises
        ------
        ConfigError, DataError : what `check` raises, and shards that cannot be read
        """
        n_rows = data.rows("train")
        self.check(data.schema, n_rows)
        design = Design.of(data, self.seed, _SAMPLE_SEED)
        inputs, bytes_read = draw_inputs(data, Design.of(data, self.seed, _MAP_SEED), MAP_SAMPLE, self.precision)
        feature_map, chosen = self.maps.draw(data.schema, inputs, self.seed, self.precision)
        rows = SampledRows(data, feature_map, design, self.constant, secrets.token_hex(8))
        n_outputs = data.schema.n_outputs
        weights = np.zeros(rows.n_columns if n_outputs == 1 else (n_outputs, rows.n_columns))
        share = 1.0 if self.all_rows else min(1.0, (self.first_sample or FIRST_SAMPLE) / n_rows)
        drawn, descent, one_class = self._placed(rows, (share,), weights, 0, self._beside(rows), execution)
        sampled = drawn.old_rows + drawn.new_rows
        return SubgradientState(
            rows, chosen, (sampled,), descent, None, None, 0, sampled, bytes_read + drawn.bytes_read, one_class
        )

    def advance(self, state: SubgradientState, data: Dataset, execution: Execution) -> SubgradientState:
        """One iteration on the sample; once it is solved a proof over all rows, or a larger sample.

        Data with more shards than before are gone on with: the point stays, and a sample of all shards is drawn.

        Raises
        ------
        DataError : shards that cannot be read, or other data than before
        """
        if data.sha256 != state.rows.data.sha256 or data.shards != state.rows.data.shards:
            return self._arrived(state, data, execution)
        at, plan = state.descent, self._plan
        ended = at.iterations >= self.max_iterations
        if not (at.gap <= plan.tolerance(state.share, at.n_rows) or at.exhausted or ended):
            return replace(state, descent=iterate(at, execution), proof=None)
        if state.share >= 1.0:
            return replace(state, proof=exact_bound(at.objective, at.lower_bound))
        if plan.worth_looking(state.seen, at.n_rows, at.gap):
            return self._looked(state, execution)
        assert state.seen is not None, "the first sample was looked at"
        rows = plan.replicate_rows(state.seen, at.n_rows, at.gap)
        if ended:
            return self._proved(state, rows or at.n_rows, execution)
        if rows is not None and rows * self.replicates > data.rows("train"):
            return self._grown(state, 1.0, execution)  # all rows are fewer, and leave nothing to chance
        if rows is None or state.proof is not None:
            return self._grown(state, plan.next_share(state.share), execution)
        return self._proved(state, rows, execution)

    def finished(self, state: SubgradientState) -> Outcome | None:
        """Done once the bound over all rows is small enough; out of budget once nothing more can be gained."""
        at, proof = state.descent, state.proof
        if not (math.isfinite(at.objective) and np.isfinite(at.weights).all()):
            return Outcome("diverged", f"the objective is {at.objective:g} after {at.iterations:,} iterations")
        if proof is None:
            return None
        if proof.confidence is None:
            where = f"gap {proof.gap:.3g} over all {at.n_rows:,} rows"
        else:
            where = f"gap {proof.gap:.3g} over all rows at {100.0 * self.confidence:g}% confidence"
        if proof.gap <= self.gap:
            return Outcome("done", where)
        if at.iterations >= self.max_iterations:
            return Outcome("out of budget", f"{where}, after {at.iterations:,} iterations")
        if proof.confidence is None:
            return Outcome("out of budget", f"{where}: with these rows float64 tells no smaller one")
        return None

    def standing(self, state: SubgradientState) -> Convergence:
        """Iterations, objective and bound: over all rows once they are proved, of the sample until then."""
        at, proof = state.descent, state.proof
        objective, lower = (at.objective, at.lower_bound) if proof is None else (proof.objective, proof.lower_bound)
        size = max(abs(objective), abs(lower))
        gap = max(0.0, objective - lower) / size if size else 0.0
        return Convergence(at.iterations, gap, objective, lower, at.n_rows)

    def predictor(self, state: SubgradientState) -> Predictor:
        """The map with the weights, and a bias where there is one."""
        weights = np.atleast_2d(state.descent.weights).astype(self.precision)
        if not self.constant:
            return LinearPredictor(state.rows.feature_map, weights)
        return LinearPredictor(
            state.rows.feature_map, np.ascontiguousarray(weights[:, :-1]), np.ascontiguousarray(weights[:, -1])
        )

    def chosen(self, state: SubgradientState) -> dict[str, Any]:
        """The map's choices, the problem in words, and how large the sample came to be."""
        at, n_all = state.descent, state.rows.data.rows("train")
        run = state.rows.design.run_rows
        why = f"{at.n_rows / n_all:.2%} of the rows, {'one by one' if run == 1 else f'in runs of {run}'}"
        told: dict[str, Any] = {
            "lam": self.lam,
            "lam_reason": f"weight of half the squared norm beside mean losses: C = {1.0 / (self.lam * n_all):.4g}",
            "loss": self.loss.name,
            "bias": "regularised like a weight" if self.constant else "none",
            "sample_rows": at.n_rows,
            "sample_rows_reason": "all of them" if state.share >= 1.0 else why,
        }
        if state.one_class:
            told["one_class_samples"] = state.one_class
            told["one_class_samples_reason"] = "all rows of these had one label, so that more were drawn at once"
        return state.chosen | told

    def certificate(self, state: SubgradientState) -> dict[str, Any]:
        """The proof as JSON."""
        at, outcome = state.descent, self.finished(state)
        proof = state.proof or exact_bound(at.objective, at.lower_bound)
        return {
            "kind": "gap over all rows",
            **proof.as_json(),
            "confidence": None if proof.confidence is None else self.confidence,
            "sample_rows": at.n_rows,
            "samples": list(state.samples),
            "sampled_objective": at.objective,
            "sampled_lower_bound": at.lower_bound,
            "rows_sampled": state.drawn_rows,
            "bytes_read": state.bytes_read,
            "attempts": state.attempts,
            "iterations": at.iterations,
            "outcome": "" if outcome is None else outcome.reason,
        }

    @property
    def _samples_method(self) -> Scs:
        return Scs(lam=self.lam, loss=self.loss, gap=self.gap, bundle_size=self.bundle_size)

    @property
    def _method(self) -> Scs:
        return Wolfe(lam=self.lam, loss=self.loss, gap=self.gap) if self.conjugate else self._samples_method

    @property
    def _plan(self) -> Plan:
        return Plan(self.gap, self.lam, self.first_sample or FIRST_SAMPLE, self.replicates)

    def _beside(self, rows: SampledRows) -> tuple[Beside, Log]:
        work = OpenSample(rows, self.loss, rows.data.schema.n_outputs)
        return Beside(secrets.token_hex(8), work), Log()

    def _placed(
        self,
        rows: SampledRows,
        shares: tuple[float, ...],
        weights: FloatArray,
        iterations: int,
        placed: tuple[Beside, Log],
        execution: Execution,
    ) -> tuple[Drawn, Descent, int]:
        """The sample of the last share, or one with two classes, cut once; how many had one class."""
        work, log = placed
        one_class, bytes_read, first = 0, 0, None
        while True:
            drawn, log = place(work, log, shares, weights, execution)
            first = first or drawn
            alike = drawn.targets[0] >= drawn.targets[1] and self.loss.task != "regression"
            bytes_read += drawn.bytes_read
            if shares[-1] >= 1.0 or not alike:
                break
            one_class += 1
            shares = (*shares, self._plan.next_share(shares[-1]))
        if one_class:  # of rows and losses that were new when this began
            new_rows = drawn.old_rows + drawn.new_rows - first.old_rows
            new_losses = drawn.old_losses + drawn.new_losses - first.old_losses
            drawn = first._replace(new_rows=new_rows, new_losses=new_losses, bytes_read=bytes_read)
        return drawn, begin(self._method, shares, weights, drawn, iterations, (work, log), execution), one_class

    def _grown(self, state: SubgradientState, share: float, execution: Execution) -> SubgradientState:
        """A larger sample, from the point that the last one left."""
        at = state.descent
        shares = (*at.shares, share)
        drawn, descent, one_class = self._placed(
            state.rows, shares, at.weights, at.iterations, (at.work, at.log), execution
        )
        return replace(
            state,
            samples=(*state.samples, descent.n_rows),
            descent=descent,
            proof=None,
            drawn_rows=state.drawn_rows + drawn.new_rows,
            bytes_read=state.bytes_read + drawn.bytes_read,
            one_class=state.one_class + one_class,
        )

    def _looked(self, state: SubgradientState, execution: Execution) -> SubgradientState:
        """What a few fresh samples say of the point: whether a proof would do."""
        at = state.descent
        rows = max(LOOK_SHARE * at.n_rows, 2.0)
        found = self._replicated(state, rows, 0.5, (_LOOK_SEED, len(state.samples)), LOOKS, execution)
        seen = Seen.of(found.mean_gap, at.n_rows, rows, 0.5 * (at.gap + SOLVED_TO * self.gap))
        return self._read(replace(state, seen=seen), found)

    def _proved(self, state: SubgradientState, rows: int, execution: Execution) -> SubgradientState:
        """A bound from fresh samples; each attempt spends half of the chance to fail that is left."""
        at, attempt = state.descent, state.attempts + 1
        confidence = 1.0 - (1.0 - self.confidence) * 0.5**attempt
        proof = self._replicated(state, rows, confidence, (_PROOF_SEED, attempt), self.replicates, execution)
        seen = Seen.of(proof.mean_gap, at.n_rows, rows, 0.5 * (at.gap + SOLVED_TO * self.gap))
        return self._read(replace(state, proof=proof, attempts=attempt, seen=seen), proof)

    def _replicated(
        self,
        state: SubgradientState,
        rows: float,
        confidence: float,
        seed: tuple[int, int],
        replicates: int,
        execution: Execution,
    ) -> FullBound:
        share = min(1.0, rows / state.rows.data.rows("train"))
        method = replace(self._samples_method, gap=SOLVED_TO * self.gap)
        independent = fresh(state.rows, *seed)
        n_outputs = state.rows.data.schema.n_outputs
        weights = state.descent.weights
        return replicated_bound(independent, weights, method, n_outputs, share, confidence, execution, replicates)

    def _read(self, state: SubgradientState, found: FullBound) -> SubgradientState:
        rows, bytes_read = state.drawn_rows + found.rows, state.bytes_read + found.bytes_read
        return replace(state, drawn_rows=rows, bytes_read=bytes_read)

    def _arrived(self, state: SubgradientState, data: Dataset, execution: Execution) -> SubgradientState:
        """The same point before a sample of more shards, as large as the one that there was."""
        before, old, new = state.rows.data, state.rows.data.split("train"), data.split("train")
        same = new[: len(old)] == old and data.schema.features == before.schema.features
        if not same or any((a != b).any() for a, b in zip(_scaling(before), _scaling(data), strict=True)):
            raise DataError(
                f"{data.folder} does not begin with the shards of {before.folder}, scaled as they were: a run goes on "
                "with the data that it has begun with and shards that come after them. Train afresh."
            )
        at = state.descent
        rows = replace(state.rows, data=data)
        share = min(1.0, at.n_rows / data.rows("train"))
        drawn, descent, one_class = self._placed(
            rows, (share,), at.weights, at.iterations, self._beside(rows), execution
        )
        return replace(
            state,
            rows=rows,
            samples=(*state.samples, descent.n_rows),
            descent=descent,
            seen=None,
            proof=None,
            drawn_rows=state.drawn_rows + descent.n_rows,
            bytes_read=state.bytes_read + drawn.bytes_read,
            one_class=state.one_class + one_class,
        )


def _scaling(data: Dataset) -> tuple[FloatArray, FloatArray, FloatArray]:
    return (*data.schema.shift_and_factor, np.array(data.schema.target_shift_and_factor))
