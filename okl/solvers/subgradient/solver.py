"""The subgradient solver over shards."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from okl.compiled.jit import one_blas_thread
from okl.data.dataset import Dataset, Schema
from okl.data.executor import Execution
from okl.features.base import FeatureMap
from okl.features.predictors import KernelExpansion, LinearPredictor, Predictor
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray, Precision
from okl.foundation.validation import check_at_least, check_positive
from okl.losses import PiecewiseLinear
from okl.solvers.base import Convergence, Outcome, SolverMap
from okl.solvers.rounds import CommandLog, WorkerState
from okl.solvers.subgradient.certificate import (
    REPLICATES,
    SOLVED_TO,
    FullBound,
    ReplicateWork,
    bound_by,
    draw_inputs,
    exact_bound,
    fresh,
    replicated_bound,
)
from okl.solvers.subgradient.drawing import FIRST_SAMPLE, GapEstimate, SampleDesign, SampledRows, SamplePlan
from okl.solvers.subgradient.losses import describe_loss
from okl.solvers.subgradient.method import KernelDescent, Scs, Wolfe
from okl.solvers.subgradient.sampling import (
    KernelReplicateWork,
    KernelSampler,
    Sampler,
    SubgradientState,
    kernel_of,
    most_rows,
)
from okl.solvers.subgradient.sharded import OpenSample, ShardedDescent, begin, iterate, place_sample, squared
from okl.solvers.subgradient.spaces import ExactChoice

# Validation samples.

LOOKS, LOOK_SHARE = 3, 0.125  # fresh samples, and rows of each over those of the sample, to see what a point is worth
_LOOK_SEED, _PROOF_SEED = 3, 4


@dataclass(frozen=True)
class SampleValidation:
    """Test by fresh samples. method : of the problem, with the requested gap; confidence, replicates : of a bound."""

    method: Scs
    confidence: float
    replicates: int

    def estimated(self, state: SubgradientState, execution: Execution) -> SubgradientState:
        """Return the estimates of a few fresh samples: whether a proof would succeed."""
        at = state.descent
        rows = max(LOOK_SHARE * at.n_rows, 2.0)
        bound = self._bound(state, rows, 0.5, (_LOOK_SEED, len(state.samples)), LOOKS, execution)
        estimate = GapEstimate.of(bound.mean_gap, at.n_rows, rows, 0.5 * (at.gap + SOLVED_TO * self.method.gap))
        return self._read(replace(state, seen=estimate), bound)

    def proved(self, state: SubgradientState, rows: int, execution: Execution) -> SubgradientState:
        """Return a bound from fresh samples; each attempt uses half of the remaining error probability."""
        at, attempt = state.descent, state.attempts + 1
        confidence = 1.0 - (1.0 - self.confidence) * 0.5**attempt
        proof = self._bound(state, rows, confidence, (_PROOF_SEED, attempt), self.replicates, execution)
        estimate = GapEstimate.of(proof.mean_gap, at.n_rows, rows, 0.5 * (at.gap + SOLVED_TO * self.method.gap))
        return self._read(replace(state, proof=proof, attempts=attempt, seen=estimate), proof)

    def _bound(
        self,
        state: SubgradientState,
        rows: float,
        confidence: float,
        seed: tuple[int, int],
        replicates: int,
        execution: Execution,
    ) -> FullBound:
        share = min(1.0, rows / state.rows.data.rows("train"))
        method = replace(self.method, gap=SOLVED_TO * self.method.gap)
        independent = fresh(state.rows, *seed)
        at, n_outputs = state.descent, state.rows.data.schema.n_outputs
        if isinstance(at, KernelDescent):
            share = min(share, most_rows() / state.rows.data.rows("train"))
            supports, weights = at.support
            work: ReplicateWork = KernelReplicateWork(
                independent, share, weights, method, n_outputs, supports, at.squared_length
            )
        else:
            work = ReplicateWork(independent, share, at.weights, method, n_outputs)
        return bound_by(work, confidence, execution, replicates)

    def _read(self, state: SubgradientState, bound: FullBound) -> SubgradientState:
        rows, bytes_read = state.drawn_rows + bound.rows, state.bytes_read + bound.bytes_read
        return replace(state, drawn_rows=rows, bytes_read=bytes_read)


# Proofs for any point.

REPLICATE_ROWS = 10_000
_ACCURACY = 0.05  # of the gap: how near the optimum over all rows must be known
_MOST_ITERATIONS = 1000
_SEED = 5


@dataclass(frozen=True)
class Prover:
    """Bounds F(w) - min F over all rows, F(w) = lam/2 ||w||^2 + mean_i loss(y_i, <w, z(x_i)>).

    Rows that are no more than those of all fresh samples together are all taken, and the bound is exact.

    Parameters
    ----------
    loss, lam : of the problem; confidence : in (0, 1), of a bound that is not exact
    replicates, replicate_rows : fresh samples, and rows of each; solved_to : the gap that each is solved to
    seed : of the samples; a point that was learned from other random numbers does not depend on them

    Raises
    ------
    ConfigError : a number outside its range
    """

    loss: PiecewiseLinear
    lam: float
    confidence: float = 0.95
    replicates: int = REPLICATES
    replicate_rows: int = REPLICATE_ROWS
    solved_to: float = 1e-3
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive("lam", self.lam)
        check_positive("solved_to", self.solved_to)

    def bound(self, data: Dataset, feature_map: FeatureMap, weights: FloatArray, execution: Execution) -> FullBound:
        """Return the bound of a point (n_columns,) or (n_outputs, n_columns) in a map.

        Raises
        ------
        DataError : shards that cannot be read
        """
        rows = SampledRows(data, feature_map, SampleDesign.of(data, self.seed, _SEED), False, secrets.token_hex(8))
        point, n_all = np.array(weights, dtype=np.float64), data.rows("train")
        if self.replicates * self.replicate_rows >= n_all:
            return self._exact(rows, point, execution)
        method = Scs(lam=self.lam, loss=self.loss, gap=self.solved_to)
        outputs, share = data.schema.n_outputs, self.replicate_rows / n_all
        return replicated_bound(rows, point, method, outputs, share, self.confidence, execution, self.replicates)

    def _exact(self, rows: SampledRows, point: FloatArray, execution: Execution) -> FullBound:
        work = WorkerState(secrets.token_hex(8), OpenSample(rows, self.loss, rows.data.schema.n_outputs))
        totals, log = place_sample(work, CommandLog(), (1.0,), point, execution)
        objective = totals.new_losses / totals.new_rows + 0.5 * self.lam * squared(point)
        at = begin(Scs(lam=self.lam, loss=self.loss), (1.0,), point, totals, 0, (work, log), execution)
        while (
            at.gap > _ACCURACY * (objective - at.lower_bound) and not at.exhausted and at.iterations < _MOST_ITERATIONS
        ):
            at = iterate(at, execution)
        return FullBound(
            objective - at.lower_bound, objective, None, rows=totals.new_rows, bytes_read=totals.bytes_read
        )


# Status and certificate of a run.


def outcome_of(
    state: SubgradientState, gap: float, confidence: float, max_iterations: int, full: bool
) -> Outcome | None:
    """Reason why a run is over, or None. gap, confidence : requested; full : whether the sample cannot grow"""
    at, proof = state.descent, state.proof
    if not (math.isfinite(at.objective) and np.isfinite(at.weights).all()):
        return Outcome("diverged", f"the objective is {at.objective:g} after {at.iterations:,} iterations")
    if proof is None:
        return None
    if proof.confidence is None:
        where = f"gap {proof.gap:.3g} over all {at.n_rows:,} rows"
    else:
        where = f"gap {proof.gap:.3g} over all rows at {100.0 * confidence:g}% confidence"
    if proof.gap <= gap:
        return Outcome("done", where)
    if at.iterations >= max_iterations:
        return Outcome("out of budget", f"{where}, after {at.iterations:,} iterations")
    if proof.confidence is None:
        return Outcome("out of budget", f"{where}: float64 cannot resolve a smaller gap on these rows")
    if full:
        return Outcome(
            "out of budget", f"{where}: the kernel values of a larger sample do not fit in memory; use a feature map"
        )
    return None


def progress_of(state: SubgradientState) -> Convergence:
    """Return iterations, objective and bound: over all rows once they are proved, of the sample until then."""
    at, proof = state.descent, state.proof
    objective, lower = (at.objective, at.lower_bound) if proof is None else (proof.objective, proof.lower_bound)
    size = max(abs(objective), abs(lower))
    gap = max(0.0, objective - lower) / size if size else 0.0
    return Convergence(at.iterations, gap, objective, lower, at.n_rows)


def predictor_of(state: SubgradientState, constant: bool, precision: Precision) -> Predictor:
    """Return the map with the weights, the last a bias if there is a constant column,

    or a kernel expansion over support vectors.
    """
    at = state.descent
    if isinstance(at, KernelDescent):
        supports, coefficients = at.support
        return KernelExpansion(kernel_of(state.rows), supports, coefficients.astype(precision))
    weights = np.atleast_2d(at.weights).astype(precision)
    if not constant:
        return LinearPredictor(state.rows.feature_map, weights)
    return LinearPredictor(
        state.rows.feature_map, np.ascontiguousarray(weights[:, :-1]), np.ascontiguousarray(weights[:, -1])
    )


def sample_of(state: SubgradientState) -> dict[str, Any]:
    """Return the final size of the sample, and the reason."""
    at, run = state.descent, state.rows.design.run_rows
    why = f"{at.n_rows / state.n_all:.2%} of the rows, {'drawn singly' if run == 1 else f'in runs of {run}'}"
    description: dict[str, Any] = {
        "sample_rows": at.n_rows,
        "sample_rows_reason": "all rows" if state.share >= 1.0 else why,
    }
    if isinstance(at, KernelDescent):
        description["support_vectors"] = len(at.support[0])
        description["support_vectors_reason"] = "rows of the sample with coefficients other than 0"
    if state.one_class:
        description["one_class_samples"] = state.one_class
        description["one_class_samples_reason"] = "samples with a single label, after which more rows were drawn"
    return description


def certificate_of(state: SubgradientState, confidence: float, outcome: str) -> dict[str, Any]:
    """Return the certificate over all rows, or of the sample. confidence : of all attempted proofs together"""
    at = state.descent
    proof = state.proof or exact_bound(at.objective, at.lower_bound)
    return {
        "kind": "gap over all rows",
        **proof.as_json(),
        "confidence": None if proof.confidence is None else confidence,
        "sample_rows": at.n_rows,
        "samples": list(state.samples),
        "sampled_objective": at.objective,
        "sampled_lower_bound": at.lower_bound,
        "rows_sampled": state.drawn_rows,
        "bytes_read": state.bytes_read,
        "attempts": state.attempts,
        "iterations": at.iterations,
        "outcome": outcome,
    }


# The solver.

MAP_SAMPLE = 1000
_SAMPLE_SEED, _MAP_SEED = 1, 2


@dataclass(frozen=True)
class SubgradientSolver:
    """Minimise lam/2 ||w||^2 + mean_i loss(y_i, <w, z(x_i)>) over all rows, seen through samples.

    A sample is solved by cuts, with a line search to the minimum of their model; then it grows, and the point goes on
    from where it is. It is over when the bound over ALL rows is below `gap`: by fresh samples at a stated confidence,
    or exactly once all rows are in the sample.

    Parameters
    ----------
    loss : piecewise linear; maps : which feature map, or ExactChoice for the kernel itself, without a constant
    lam : float > 0; gap : float > 0, of the objective, absolute
    confidence : in (0, 1), of the gap over all rows, however often one was tried
    first_sample : rows, None for 1000 or all; all_rows : start with all rows: deterministic
    bundle_size : int >= 2, cuts kept; conjugate : Wolfe's directions in place of those to the minimum of a bundle
    constant : whether a constant column gives a bias that is regularised like a weight; otherwise there is none
    max_iterations : of all samples; replicates : fresh samples of a proof
    seed, precision : of the map and of all samples

    Raises
    ------
    ConfigError : a number outside its range
    """

    loss: PiecewiseLinear
    maps: SolverMap
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
            raise ConfigError(f"confidence = {self.confidence:g}; expected a number between 0 and 1, such as 0.95.")
        if isinstance(self.maps, ExactChoice) and (self.constant or self.conjugate):
            raise ConfigError(
                "The exact kernel requires bundle directions without a bias. Leave constant and conjugate out, "
                "or use a feature map."
            )
        if isinstance(self.maps, ExactChoice) and not self._sampler.room(self.first_sample or 0):
            raise ConfigError(
                f"first_sample = {self.first_sample:,}, but memory holds the kernel values of {most_rows():,} "
                "rows. Reduce it, or use a feature map."
            )

    def check(self, schema: Schema, rows: int | None) -> None:
        """Raise ConfigError for what is wrong before rows are read. rows : to train on, None if unknown.

        Raises
        ------
        ConfigError : a loss of another task, fewer rows than the first sample
        DataError : a class without rows
        """
        if self.loss.task != schema.task:
            raise ConfigError(
                f"The loss {self.loss.name!r} is for {self.loss.task} tasks, but the target {schema.target!r} "
                f"makes this a {schema.task} task. Use --loss auto, or ingest with --task {self.loss.task}."
            )
        schema.refuse_empty_classes()
        if rows is not None and self.first_sample is not None and self.first_sample > rows:
            raise ConfigError(
                f"first_sample = {self.first_sample:,}, but there are {rows:,} training rows. Leave it out, or "
                "reduce it."
            )

    @one_blas_thread()  # bits depend on the number of threads
    def start(self, data: Dataset, execution: Execution, warm: LinearPredictor | None = None) -> SubgradientState:
        """Draw the map and the first sample, and take the first cut, at 0.

        warm : a solution of the same problem for other rows, whose map is kept, and whose weights are cut at first

        Raises
        ------
        ConfigError, DataError : what `check` raises, and shards that cannot be read
        """
        n_rows = data.rows("train")
        self.check(data.schema, n_rows)
        design = SampleDesign.of(data, self.seed, _SAMPLE_SEED)
        if warm is not None:
            return self._start_warm(data, design, warm, execution)
        inputs, bytes_read = draw_inputs(data, SampleDesign.of(data, self.seed, _MAP_SEED), MAP_SAMPLE, self.precision)
        feature_map, chosen = self.maps.draw(data.schema, inputs, self.seed, self.precision)
        rows = SampledRows(data, feature_map, design, self.constant, secrets.token_hex(8))
        share = 1.0 if self.all_rows else min(1.0, (self.first_sample or FIRST_SAMPLE) / n_rows)
        return self._sampler.start(rows, chosen, share, bytes_read, execution)

    def _start_warm(
        self, data: Dataset, design: SampleDesign, warm: LinearPredictor, execution: Execution
    ) -> SubgradientState:
        rows = SampledRows(data, warm.feature_map, design, self.constant, secrets.token_hex(8))
        share = 1.0 if self.all_rows else min(1.0, (self.first_sample or FIRST_SAMPLE) / data.rows("train"))
        weights = warm.weights.astype(np.float64)
        if self.constant:
            offsets = np.zeros(len(weights)) if warm.offsets is None else warm.offsets.astype(np.float64)
            weights = np.concatenate([weights, offsets[:, np.newaxis]], axis=1)
        chosen = {"map": "kept", "map_reason": "the map of the initial solution"}
        sampler = self._sampler
        assert isinstance(sampler, Sampler), "exact kernels have no map"
        return sampler.start(rows, chosen, share, 0, execution, weights[0] if len(weights) == 1 else weights)

    def advance(self, state: SubgradientState, data: Dataset, execution: Execution) -> SubgradientState:
        """Run one iteration on the sample; once it is solved, prove the bound over all rows or enlarge the sample.

        With more shards than before the run continues: the point stays, and a sample of all shards is drawn.

        Raises
        ------
        DataError : shards that cannot be read, or other data than before
        """
        if data.sha256 != state.rows.data.sha256 or data.shards != state.rows.data.shards:
            return self._sampler.arrived(state, data, execution)
        at, plan = state.descent, self._plan
        ended = at.iterations >= self.max_iterations or self._full(state)
        if isinstance(at, ShardedDescent) and not (
            ended or at.exhausted or at.gap <= plan.tolerance(state.share, at.n_rows)
        ):
            return replace(state, descent=iterate(at, execution), proof=None)
        if state.share >= 1.0:
            return replace(state, proof=exact_bound(at.objective, at.lower_bound))
        if plan.worth_looking(state.seen, at.n_rows, at.gap):
            return self._witness.estimated(state, execution)
        assert state.seen is not None, "the first sample has been validated"
        rows = plan.replicate_rows(state.seen, at.n_rows, at.gap, state.attempts)
        if ended:
            return self._witness.proved(state, rows or at.n_rows, execution)
        n_all = data.rows("train")
        if rows is not None and rows * self.replicates > n_all and self._sampler.room(n_all):
            return self._sampler.grown(state, 1.0, execution)  # all rows are fewer, and leave nothing to chance
        if rows is None or state.proof is not None:
            return self._sampler.grown(state, plan.next_share(state.share), execution)
        return self._witness.proved(state, rows, execution)

    def finished(self, state: SubgradientState) -> Outcome | None:
        """Done once the bound over all rows is small enough; out of budget once nothing more can be gained."""
        return outcome_of(state, self.gap, self.confidence, self.max_iterations, self._full(state))

    def _full(self, state: SubgradientState) -> bool:
        """Return whether there is no room for a larger sample."""
        following = math.ceil(self._plan.next_share(state.share) * state.rows.data.rows("train"))
        return state.share < 1.0 and not self._sampler.room(following)

    def progress(self, state: SubgradientState) -> Convergence:
        """Return iterations, objective and bound: over all rows once they are proved, of the sample until then."""
        return progress_of(state)

    def predictor(self, state: SubgradientState) -> Predictor:
        """Return the map with weights and bias; for an exact kernel, the expansion over support vectors."""
        return predictor_of(state, self.constant, self.precision)

    def chosen(self, state: SubgradientState) -> dict[str, Any]:
        """Return the map's choices, a description of the problem, and the final sample size."""
        cost = 1.0 / (self.lam * state.n_all)
        problem = {
            "lam": self.lam,
            "lam_reason": f"weight of half the squared norm against the mean loss: C = {cost:.4g}",
            **describe_loss(self.loss, state.rows.data.schema.labels),
            "bias": "regularised like a weight" if self.constant else "none",
        }
        return state.chosen | problem | sample_of(state)

    def certificate(self, state: SubgradientState) -> dict[str, Any]:
        """Return the certificate as JSON."""
        outcome = self.finished(state)
        return certificate_of(state, self.confidence, "" if outcome is None else outcome.reason)

    @property
    def _sampler(self) -> Sampler | KernelSampler:
        if isinstance(self.maps, ExactChoice):
            return KernelSampler(self._method, self._plan, self.max_iterations)
        wolfe = Wolfe(lam=self.lam, loss=self.loss, gap=self.gap)
        return Sampler(wolfe if self.conjugate else self._method, self._plan)

    @property
    def _witness(self) -> SampleValidation:
        return SampleValidation(self._method, self.confidence, self.replicates)

    @property
    def _method(self) -> Scs:
        return Scs(lam=self.lam, loss=self.loss, gap=self.gap, bundle_size=self.bundle_size)

    @property
    def _plan(self) -> SamplePlan:
        return SamplePlan(self.gap, self.lam, self.first_sample or FIRST_SAMPLE, self.replicates)
