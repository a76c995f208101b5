"""What fresh samples say of the point of a run: whether a bound over all rows is worth trying, and the bound."""

from __future__ import annotations

from dataclasses import dataclass, replace

from okl.execution.protocol import Execution
from okl.subgradient.certificate import SOLVED_TO, FullBound, bound_by
from okl.subgradient.growth import Seen
from okl.subgradient.kerneldescent import KernelDescent
from okl.subgradient.kernelsampling import KernelReplicateWork, most_rows
from okl.subgradient.replicates import ReplicateWork, fresh
from okl.subgradient.scs import Scs
from okl.subgradient.state import SubgradientState

LOOKS, LOOK_SHARE = 3, 0.125  # fresh samples, and rows of each over those of the sample, to see what a point is worth
_LOOK_SEED, _PROOF_SEED = 3, 4


@dataclass(frozen=True)
class Witness:
    """Asks fresh samples. method : of the problem, with the gap asked for; confidence, replicates : of a bound."""

    method: Scs
    confidence: float
    replicates: int

    def looked(self, state: SubgradientState, execution: Execution) -> SubgradientState:
        """What a few fresh samples say of the point: whether a proof would do."""
        at = state.descent
        rows = max(LOOK_SHARE * at.n_rows, 2.0)
        found = self._bound(state, rows, 0.5, (_LOOK_SEED, len(state.samples)), LOOKS, execution)
        seen = Seen.of(found.mean_gap, at.n_rows, rows, 0.5 * (at.gap + SOLVED_TO * self.method.gap))
        return self._read(replace(state, seen=seen), found)

    def proved(self, state: SubgradientState, rows: int, execution: Execution) -> SubgradientState:
        """A bound from fresh samples; each attempt spends half of the chance to fail that is left."""
        at, attempt = state.descent, state.attempts + 1
        confidence = 1.0 - (1.0 - self.confidence) * 0.5**attempt
        proof = self._bound(state, rows, confidence, (_PROOF_SEED, attempt), self.replicates, execution)
        seen = Seen.of(proof.mean_gap, at.n_rows, rows, 0.5 * (at.gap + SOLVED_TO * self.method.gap))
        return self._read(replace(state, proof=proof, attempts=attempt, seen=seen), proof)

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

    def _read(self, state: SubgradientState, found: FullBound) -> SubgradientState:
        rows, bytes_read = state.drawn_rows + found.rows, state.bytes_read + found.bytes_read
        return replace(state, drawn_rows=rows, bytes_read=bytes_read)
