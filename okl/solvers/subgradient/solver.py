"""The subgradient solver over shards."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from okl.compiled.jit import one_blas_thread
from okl.data.dataset import Dataset, Schema
from okl.data.execution import Execution
from okl.features.base import FeatureMap
from okl.features.predictors import KernelExpansion, LinearPredictor, Predictor
from okl.foundation.errors import ConfigError
from okl.foundation.types import FloatArray, Precision
from okl.foundation.validation import check_at_least, check_positive
from okl.losses import PiecewiseLinear
from okl.solvers.base import Convergence, Outcome, SolverMap
from okl.solvers.subgradient import sampling, sharded
from okl.solvers.subgradient.losses import describe_loss
from okl.solvers.subgradient.scs import DirectionName, KernelDescent, Scs, Wolfe, exhausted
from okl.solvers.subgradient.spaces import ExactChoice

# Proofs for any point.

REPLICATE_ROWS = 10_000
_ACCURACY = 0.05  # of the gap: how near the optimum over all rows must be known
_MOST_ITERATIONS = 1000
_SEED = 5
_IDLE = "the last iterations no longer reduce it"


@dataclass(frozen=True)
class GapBounder:
    """Bound on F(w) - min F over all rows, F(w) = lam/2 ||w||^2 + mean_i loss(y_i, <w, z(x_i)>).

    Rows that are no more than those of all fresh samples together are all taken, and the bound is exact.

    loss, lam : of the problem; confidence : in (0, 1), of a bound that is not exact
    replicates, replicate_rows : fresh samples, and rows of each; solved_to : the gap that each is solved to
    seed : of the samples; a point that was learned from other random numbers does not depend on them
    Raises ConfigError : a number outside its range
    """

    loss: PiecewiseLinear
    lam: float
    confidence: float = 0.95
    replicates: int = sampling.REPLICATES
    replicate_rows: int = REPLICATE_ROWS
    solved_to: float = 1e-3
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive("lam", self.lam)
        check_positive("solved_to", self.solved_to)

    def bound(
        self, data: Dataset, feature_map: FeatureMap, weights: FloatArray, execution: Execution
    ) -> sampling.FullBound:
        """Return the bound of a point (n_columns,) or (n_outputs, n_columns) in a map; or DataError."""
        rows = sampling.SampledRows(
            data, feature_map, sampling.SampleDesign.of(data, self.seed, _SEED), False, secrets.token_hex(8)
        )
        point, n_all = np.array(weights, dtype=np.float64), data.rows("train")
        if self.replicates * self.replicate_rows >= n_all:
            return self._exact(rows, point, execution)
        method = Scs(lam=self.lam, loss=self.loss, gap=self.solved_to)
        outputs, share = data.schema.n_outputs, self.replicate_rows / n_all
        work = sampling.ReplicateWork(rows, share, point, method, outputs)
        return sampling.replicated_bound(work, self.confidence, execution, self.replicates)

    def _exact(self, rows: sampling.SampledRows, point: FloatArray, execution: Execution) -> sampling.FullBound:
        sample = sharded.ShardedSample(Scs(lam=self.lam, loss=self.loss), rows, None, weights=point)
        totals = sample.draw((1.0,), execution)
        objective = totals.losses / totals.rows + 0.5 * self.lam * sharded.squared(point)
        at = sample.descent((1.0,), execution)
        while (
            at.gap > _ACCURACY * (objective - at.lower_bound) and not at.exhausted and at.iterations < _MOST_ITERATIONS
        ):
            at = sharded.iterate(at, execution)
        return sampling.FullBound(
            objective - at.lower_bound, objective, None, rows=totals.rows, bytes_read=totals.bytes_read
        )


MAP_SAMPLE = 1000
_SAMPLE_SEED, _MAP_SEED, _LOOK_SEED, _PROOF_SEED = 1, 2, 3, 4


@dataclass(frozen=True)
class SubgradientSolver:
    """Minimise lam/2 ||w||^2 + mean_i loss(y_i, <w, z(x_i)>) over all rows, seen through samples.

    A sample is solved by cuts, with a line search to the minimum of their model; then it grows, and the point goes on
    from where it is. It is over when the bound over ALL rows is below `gap`: by fresh samples at a stated confidence,
    or exactly once all rows are in the sample.

    loss : piecewise linear; maps : which feature map, or ExactChoice for the kernel itself, without a constant
    lam : float > 0; gap : float > 0, of the objective, absolute
    confidence : in (0, 1), of the gap over all rows, however often one was tried
    first_sample : rows, None for 1000 or all; all_rows : start with all rows: deterministic
    directions, bundle_size : as in Scs; conjugate : Wolfe's directions in place of these
    constant : whether a constant column gives a bias that is regularised like a weight; otherwise there is none
    max_iterations : of all samples; replicates : fresh samples of a proof
    seed, precision : of the map and of all samples
    Raises ConfigError : a number outside its range
    """

    loss: PiecewiseLinear
    maps: SolverMap
    lam: float = 1e-3
    gap: float = 0.01
    confidence: float = 0.95
    first_sample: int | None = None
    all_rows: bool = False
    bundle_size: int = 100
    directions: DirectionName = "bundle"
    conjugate: bool = False
    constant: bool = False
    max_iterations: int = 20_000
    replicates: int = sampling.REPLICATES
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
        if isinstance(self.maps, ExactChoice) and not self._room(self.first_sample or 0):
            raise ConfigError(
                f"first_sample = {self.first_sample:,}, but memory holds the kernel values of {sharded.most_rows():,} "
                "rows. Reduce it, or use a feature map."
            )

    def check(self, schema: Schema, rows: int | None) -> None:
        """Raise ConfigError or DataError before rows are read. rows : to train on, None if unknown."""
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
    def start(
        self, data: Dataset, execution: Execution, warm: LinearPredictor | None = None
    ) -> sharded.SubgradientState:
        """Draw the map and the first sample, and take the first cut, at 0.

        warm : a solution of the same problem for other rows, whose map is kept, and whose weights are cut at first
        Raises ConfigError, DataError : what `check` raises, and shards that cannot be read
        """
        n_rows = data.rows("train")
        self.check(data.schema, n_rows)
        design = sampling.SampleDesign.of(data, self.seed, _SAMPLE_SEED)
        if warm is None:
            map_design = sampling.SampleDesign.of(data, self.seed, _MAP_SEED)
            inputs, bytes_read = sampling.draw_inputs(data, map_design, MAP_SAMPLE, self.precision)
            feature_map, chosen = self.maps.draw(data.schema, inputs, self.seed, self.precision)
        else:
            feature_map, bytes_read = warm.feature_map, 0
            chosen = {"map": "kept", "map_reason": "the map of the initial solution"}
        rows = sampling.SampledRows(data, feature_map, design, self.constant, secrets.token_hex(8))
        share = 1.0 if self.all_rows else min(1.0, (self.first_sample or sampling.FIRST_SAMPLE) / n_rows)
        sample = self._sample(rows, None, weights=None if warm is None else self._weights_of(warm))
        descent, drawn, read, one_class = self._draw(sample, (share,), execution)
        sizes, read = (descent.n_rows,), bytes_read + read
        return sharded.SubgradientState(rows, chosen, sizes, descent, None, None, 0, drawn, read, one_class)

    def _weights_of(self, warm: LinearPredictor) -> FloatArray:
        weights = warm.weights.astype(np.float64)
        if self.constant:
            offsets = np.zeros(len(weights)) if warm.offsets is None else warm.offsets.astype(np.float64)
            weights = np.concatenate([weights, offsets[:, np.newaxis]], axis=1)
        return weights[0] if len(weights) == 1 else weights

    def advance(self, state: sharded.SubgradientState, data: Dataset, execution: Execution) -> sharded.SubgradientState:
        """Run one iteration on the sample; once it is solved, prove the bound over all rows or enlarge the sample.

        With more shards the point stays, and a sample of all shards is drawn; DataError for other data than before.
        """
        if data.sha256 != state.rows.data.sha256 or data.shards != state.rows.data.shards:
            sharded.check_arrived(state.rows.data, data)
            rows, share = replace(state.rows, data=data), min(1.0, state.descent.n_rows / data.rows("train"))
            return replace(self._resampled(state, rows, (share,), execution), rows=rows, seen=None)
        at, plan = state.descent, self._plan
        ended = at.iterations >= self.max_iterations or self._full(state)
        if isinstance(at, sharded.ShardedDescent) and not (
            ended or at.exhausted or at.gap <= plan.tolerance(state.share, at.n_rows)
        ):
            return replace(state, descent=sharded.iterate(at, execution), proof=None)
        if state.share >= 1.0:
            return replace(state, proof=sampling.exact_bound(at.objective, at.lower_bound))
        if plan.needs_estimate(state.seen, at.n_rows, at.gap):
            return self._look(state, execution)
        assert state.seen is not None, "the first sample has been validated"
        wanted = plan.replicate_rows(state.seen, at.n_rows, at.gap, state.attempts)
        if ended:
            return self._prove(state, wanted or at.n_rows, execution)
        n_all = data.rows("train")
        if wanted is not None and wanted * self.replicates > n_all and self._room(n_all):
            share = 1.0  # all rows are fewer, and leave nothing to chance
        elif wanted is None or state.proof is not None:
            share = plan.next_share(state.share)
        else:
            return self._prove(state, wanted, execution)
        return self._resampled(state, state.rows, (*at.shares, share), execution, larger=True)

    def _resampled(
        self,
        state: sharded.SubgradientState,
        rows: sampling.SampledRows,
        shares: tuple[float, ...],
        execution: Execution,
        larger: bool = False,
    ) -> sharded.SubgradientState:
        """Return a new sample that starts from the last point. larger : whether it has the rows of the last one."""
        sample = self._sample(rows, state.descent, larger)
        descent, drawn, bytes_read, one_class = self._draw(sample, shares, execution)
        return replace(
            state,
            samples=(*state.samples, descent.n_rows),
            descent=descent,
            proof=None,
            drawn_rows=state.drawn_rows + drawn,
            bytes_read=state.bytes_read + bytes_read,
            one_class=state.one_class + one_class,
        )

    def _sample(
        self,
        rows: sampling.SampledRows,
        before: sharded.ShardedDescent | KernelDescent | None,
        larger: bool = False,
        weights: FloatArray | None = None,
    ) -> sharded.Sample:
        if isinstance(self.maps, ExactChoice):
            assert weights is None, "exact kernels have no map"
            assert not isinstance(before, sharded.ShardedDescent), "it has no map"
            method = replace(self._method, max_iterations=self.max_iterations)
            return sharded.KernelSample(method, self._plan, rows, before, larger)
        assert not isinstance(before, KernelDescent), "it has a map"
        method = Wolfe(lam=self.lam, loss=self.loss, gap=self.gap) if self.conjugate else self._method
        return sharded.ShardedSample(method, rows, before, larger, weights)

    def _draw(
        self, sample: sharded.Sample, shares: tuple[float, ...], execution: Execution
    ) -> tuple[sharded.ShardedDescent | KernelDescent, int, int, int]:
        """Draw a sample, enlarged to two classes, and begin it; also return rows, bytes, one-class samples."""
        drawn, bytes_read, one_class = 0, 0, 0
        while True:
            totals = sample.draw(shares, execution)
            drawn, bytes_read = drawn + totals.new_rows, bytes_read + totals.bytes_read
            least, largest = totals.targets
            if shares[-1] >= 1.0 or self.loss.task == "regression" or least < largest:
                return sample.descent(shares, execution), drawn, bytes_read, one_class
            shares, one_class = (*shares, self._plan.next_share(shares[-1])), one_class + 1

    def _look(self, state: sharded.SubgradientState, execution: Execution) -> sharded.SubgradientState:
        """Estimate the gap from a few fresh samples: whether a proof would succeed."""
        rows = max(sampling.LOOK_SHARE * state.descent.n_rows, 2.0)
        return self._validated(state, rows, 0.5, (_LOOK_SEED, len(state.samples)), sampling.LOOKS, execution)[0]

    def _prove(self, state: sharded.SubgradientState, rows: int, execution: Execution) -> sharded.SubgradientState:
        """Bound the gap by fresh samples; each attempt uses half of the remaining error probability."""
        attempt = state.attempts + 1
        confidence = 1.0 - (1.0 - self.confidence) * 0.5**attempt
        seed = (_PROOF_SEED, attempt)
        state, proof = self._validated(state, rows, confidence, seed, self.replicates, execution)
        return replace(state, proof=proof, attempts=attempt)

    def _validated(
        self,
        state: sharded.SubgradientState,
        rows: float,
        confidence: float,
        seed: tuple[int, int],
        replicates: int,
        execution: Execution,
    ) -> tuple[sharded.SubgradientState, sampling.FullBound]:
        """Return the state with what fresh samples show of its point, and the bound from them."""
        at, n_all, n_outputs = state.descent, state.n_all, state.rows.data.schema.n_outputs
        share, independent = min(1.0, rows / n_all), state.rows.another(*seed)
        method = replace(self._method, gap=sampling.SOLVED_TO * self.gap)
        if isinstance(at, KernelDescent):
            supports, weights = at.support
            share = min(share, sharded.most_rows() / n_all)
            work: sampling.ReplicateWork = sharded.KernelReplicateWork(
                independent, share, weights, method, n_outputs, supports, at.squared_length
            )
        else:
            work = sampling.ReplicateWork(independent, share, at.weights, method, n_outputs)
        bound = sampling.replicated_bound(work, confidence, execution, replicates)
        seen = sampling.GapEstimate.of(bound.mean_gap, at.n_rows, rows, 0.5 * (at.gap + sampling.SOLVED_TO * self.gap))
        drawn, bytes_read = state.drawn_rows + bound.rows, state.bytes_read + bound.bytes_read
        return replace(state, seen=seen, drawn_rows=drawn, bytes_read=bytes_read), bound

    def finished(self, state: sharded.SubgradientState) -> Outcome | None:
        """Done once the bound over all rows is small enough; not converged once nothing more can be gained."""
        at, proof = state.descent, state.proof
        if not (math.isfinite(at.objective) and np.isfinite(at.weights).all()):
            return Outcome("diverged", f"the objective is {at.objective:g} after {at.iterations:,} iterations")
        if proof is None:
            return None
        where = f"gap {proof.gap:.3g} over all {at.n_rows:,} rows"
        if proof.confidence is not None:
            where = f"gap {proof.gap:.3g} over all rows at {100.0 * self.confidence:g}% confidence"
        if proof.gap <= self.gap:
            return Outcome("done", where)
        if at.iterations >= self.max_iterations:
            return Outcome("not converged", f"{where}, after {at.iterations:,} iterations")
        if proof.confidence is None:
            if exhausted(at.objective, at.objective - proof.gap, 0) == "rounding":
                return Outcome("not converged", f"{where}: float64 cannot resolve a smaller gap on these rows")
            return Outcome("not converged", f"{where}: {_IDLE}")
        if self._full(state):
            why = "the kernel values of a larger sample do not fit in memory; use a feature map"
            return Outcome("not converged", f"{where}: {why}")
        return None

    def _full(self, state: sharded.SubgradientState) -> bool:
        """Return whether there is no room for a larger sample."""
        following = math.ceil(self._plan.next_share(state.share) * state.n_all)
        return state.share < 1.0 and not self._room(following)

    def _room(self, rows: int) -> bool:
        """Return whether a sample of this number of rows can be solved: kernel values must fit in memory."""
        return not isinstance(self.maps, ExactChoice) or rows <= sharded.most_rows()

    def progress(self, state: sharded.SubgradientState) -> Convergence:
        """Return iterations, objective and bound: over all rows once they are proved, of the sample until then."""
        at, proof = state.descent, state.proof
        objective, lower = (at.objective, at.lower_bound) if proof is None else (proof.objective, proof.lower_bound)
        size = max(abs(objective), abs(lower))
        gap = max(0.0, objective - lower) / size if size else 0.0
        return Convergence(at.iterations, gap, objective, lower, at.n_rows)

    def predictor(self, state: sharded.SubgradientState) -> Predictor:
        """Return the map with weights and bias; for an exact kernel, the expansion over support vectors."""
        at, feature_map = state.descent, state.rows.feature_map
        if isinstance(at, KernelDescent):
            supports, coefficients = at.support
            return KernelExpansion(sharded.kernel_of(state.rows), supports, coefficients.astype(self.precision))
        weights = np.atleast_2d(at.weights).astype(self.precision)
        if not self.constant:
            return LinearPredictor(feature_map, weights)
        return LinearPredictor(feature_map, *map(np.ascontiguousarray, (weights[:, :-1], weights[:, -1])))

    def chosen(self, state: sharded.SubgradientState) -> dict[str, Any]:
        cost = 1.0 / (self.lam * state.n_all)
        problem = {
            "lam": self.lam,
            "lam_reason": f"weight of half the squared norm against the mean loss: C = {cost:.4g}",
            **describe_loss(self.loss, state.rows.data.schema.labels),
            "bias": "regularised like a weight" if self.constant else "none",
        }
        at, run = state.descent, state.rows.design.run_rows
        part = f"{at.n_rows / state.n_all:.2%} of the rows, {'drawn singly' if run == 1 else f'in runs of {run}'}"
        sample: dict[str, Any] = {
            "sample_rows": at.n_rows,
            "sample_rows_reason": "all rows" if state.share >= 1.0 else part,
        }
        if isinstance(at, KernelDescent):
            sample["support_vectors"] = len(at.support[0])
            sample["support_vectors_reason"] = "rows of the sample with coefficients other than 0"
        if state.one_class:
            sample["one_class_samples"] = state.one_class
            sample["one_class_samples_reason"] = "samples with a single label, after which more rows were drawn"
        return state.chosen | problem | sample

    def certificate(self, state: sharded.SubgradientState) -> dict[str, Any]:
        """Return the certificate over all rows, or of the sample, as JSON; the confidence is of all attempts."""
        at, outcome = state.descent, self.finished(state)
        proof = state.proof or sampling.exact_bound(at.objective, at.lower_bound)
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
            "converged": outcome is None or outcome.converged,
        } | ({"advice": self._advice} if outcome and outcome.reason.endswith(_IDLE) else {})

    @property
    def _advice(self) -> str:
        if self.directions != "bundle":
            return "set directions = 'bundle', or use a larger gap"
        return "use --solver scs, or a larger gap" if self.conjugate else "raise bundle_size, or use a larger gap"

    @property
    def _method(self) -> Scs:
        return Scs(self.lam, self.loss, self.gap, self.directions, self.bundle_size)

    @property
    def _plan(self) -> sampling.SamplePlan:
        return sampling.SamplePlan(self.gap, self.lam, self.first_sample or sampling.FIRST_SAMPLE)
