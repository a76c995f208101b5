"""Cutting planes on samples that grow until the bound over all rows is good enough: a solver over shards."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from okl.accelerated.solver import MapChoice
from okl.checks import check_at_least, check_positive
from okl.compiled.door import one_blas_thread
from okl.errors import ConfigError
from okl.execution.protocol import Execution
from okl.predictors import LinearPredictor, Predictor
from okl.solvers import Convergence, Outcome
from okl.store.dataset import Dataset, Schema
from okl.subgradient.certificate import REPLICATES, exact_bound
from okl.subgradient.drawing import Design
from okl.subgradient.exact import ExactChoice
from okl.subgradient.growth import FIRST_SAMPLE, Plan
from okl.subgradient.kernelsampling import KernelSampler, most_rows
from okl.subgradient.losses import PiecewiseLinear
from okl.subgradient.replicates import draw_inputs
from okl.subgradient.sampling import Sampler
from okl.subgradient.scs import Scs
from okl.subgradient.sharded.descent import Descent, iterate
from okl.subgradient.sharded.rows import SampledRows
from okl.subgradient.state import SubgradientState
from okl.subgradient.telling import certificate_of, outcome_of, predictor_of, sample_of, standing_of
from okl.subgradient.weighted import describe_loss
from okl.subgradient.witness import Witness
from okl.subgradient.wolfe import Wolfe
from okl.types import Precision

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
        if isinstance(self.maps, ExactChoice) and (self.constant or self.conjugate):
            raise ConfigError("The exact kernel is for bundles of cuts without a bias: leave both out, or take a map.")
        if isinstance(self.maps, ExactChoice) and not self._sampler.room(self.first_sample or 0):
            raise ConfigError(
                f"first_sample = {self.first_sample:,}, but kernel values of so many rows do not fit: {most_rows():,} "
                "do. Take fewer, or a map."
            )

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
        schema.refuse_empty_classes()
        if rows is not None and self.first_sample is not None and self.first_sample > rows:
            raise ConfigError(
                f"first_sample = {self.first_sample:,}, but there are {rows:,} training rows. Leave it out, or take "
                "fewer."
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
        design = Design.of(data, self.seed, _SAMPLE_SEED)
        if warm is not None:
            return self._start_warm(data, design, warm, execution)
        inputs, bytes_read = draw_inputs(data, Design.of(data, self.seed, _MAP_SEED), MAP_SAMPLE, self.precision)
        feature_map, chosen = self.maps.draw(data.schema, inputs, self.seed, self.precision)
        rows = SampledRows(data, feature_map, design, self.constant, secrets.token_hex(8))
        share = 1.0 if self.all_rows else min(1.0, (self.first_sample or FIRST_SAMPLE) / n_rows)
        return self._sampler.begun(rows, chosen, share, bytes_read, execution)

    def _start_warm(
        self, data: Dataset, design: Design, warm: LinearPredictor, execution: Execution
    ) -> SubgradientState:
        rows = SampledRows(data, warm.feature_map, design, self.constant, secrets.token_hex(8))
        share = 1.0 if self.all_rows else min(1.0, (self.first_sample or FIRST_SAMPLE) / data.rows("train"))
        weights = warm.weights.astype(np.float64)
        if self.constant:
            offsets = np.zeros(len(weights)) if warm.offsets is None else warm.offsets.astype(np.float64)
            weights = np.concatenate([weights, offsets[:, np.newaxis]], axis=1)
        chosen = {"map": "kept", "map_reason": "that of the solution begun from"}
        sampler = self._sampler
        assert isinstance(sampler, Sampler), "exact kernels have no map"
        return sampler.begun(rows, chosen, share, 0, execution, weights[0] if len(weights) == 1 else weights)

    def advance(self, state: SubgradientState, data: Dataset, execution: Execution) -> SubgradientState:
        """One iteration on the sample; once it is solved a proof over all rows, or a larger sample.

        Data with more shards than before are gone on with: the point stays, and a sample of all shards is drawn.

        Raises
        ------
        DataError : shards that cannot be read, or other data than before
        """
        if data.sha256 != state.rows.data.sha256 or data.shards != state.rows.data.shards:
            return self._sampler.arrived(state, data, execution)
        at, plan = state.descent, self._plan
        ended = at.iterations >= self.max_iterations or self._full(state)
        if isinstance(at, Descent) and not (ended or at.exhausted or at.gap <= plan.tolerance(state.share, at.n_rows)):
            return replace(state, descent=iterate(at, execution), proof=None)
        if state.share >= 1.0:
            return replace(state, proof=exact_bound(at.objective, at.lower_bound))
        if plan.worth_looking(state.seen, at.n_rows, at.gap):
            return self._witness.looked(state, execution)
        assert state.seen is not None, "the first sample was looked at"
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
        """Whether there is no room for a larger sample."""
        following = math.ceil(self._plan.next_share(state.share) * state.rows.data.rows("train"))
        return state.share < 1.0 and not self._sampler.room(following)

    def standing(self, state: SubgradientState) -> Convergence:
        """Iterations, objective and bound: over all rows once they are proved, of the sample until then."""
        return standing_of(state)

    def predictor(self, state: SubgradientState) -> Predictor:
        """The map with the weights, and a bias where there is one; without a map a sum over support vectors."""
        return predictor_of(state, self.constant, self.precision)

    def chosen(self, state: SubgradientState) -> dict[str, Any]:
        """The map's choices, the problem in words, and how large the sample came to be."""
        cost = 1.0 / (self.lam * state.n_all)
        problem = {
            "lam": self.lam,
            "lam_reason": f"weight of half the squared norm beside mean losses: C = {cost:.4g}",
            **describe_loss(self.loss, state.rows.data.schema.labels),
            "bias": "regularised like a weight" if self.constant else "none",
        }
        return state.chosen | problem | sample_of(state)

    def certificate(self, state: SubgradientState) -> dict[str, Any]:
        """The proof as JSON."""
        outcome = self.finished(state)
        return certificate_of(state, self.confidence, "" if outcome is None else outcome.reason)

    @property
    def _sampler(self) -> Sampler | KernelSampler:
        if isinstance(self.maps, ExactChoice):
            return KernelSampler(self._method, self._plan, self.max_iterations)
        wolfe = Wolfe(lam=self.lam, loss=self.loss, gap=self.gap)
        return Sampler(wolfe if self.conjugate else self._method, self._plan)

    @property
    def _witness(self) -> Witness:
        return Witness(self._method, self.confidence, self.replicates)

    @property
    def _method(self) -> Scs:
        return Scs(lam=self.lam, loss=self.loss, gap=self.gap, bundle_size=self.bundle_size)

    @property
    def _plan(self) -> Plan:
        return Plan(self.gap, self.lam, self.first_sample or FIRST_SAMPLE, self.replicates)
