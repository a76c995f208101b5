"""The scalars of the accelerated method: momentum, Lipschitz estimate and restarts; no vector in sight.

Legend: L Lipschitz estimate, t acceleration, K iterations without restart (paper's letters).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Switches:
    """Which parts of the method are on, by the paper's names.

    bt : backtracking, the Lipschitz estimate grows until the step is proven good
    dec : the estimate shrinks after every iteration
    re : momentum is dropped where the step would go uphill
    mt : no restart for K iterations after one, K doubling each time
    st : each restart lets the estimate shrink more slowly
    """

    bt: bool = True
    dec: bool = True
    re: bool = True
    mt: bool = True
    st: bool = True


@dataclass(frozen=True)
class Pace:
    """Where the scalars stand before an iteration.

    iteration : of the next step, from 1; lipschitz, before_lipschitz : L_k and L_(k-1)
    acceleration, before_acceleration : t_k and t_(k-1)
    shrink : eta_d; pause : K_i; restarted_at : the iteration of the last restart, 0 if none; restarts : so far
    least : the estimate never falls below it
    objective : F of the current point; ceiling : F at the last restart, which Lemma 5 forbids to rise above;
        infinite after a change of objective, until a step is kept
    distrusted : whether the last step rose above it, so that the next one must prove itself
    """

    iteration: int
    lipschitz: float
    before_lipschitz: float
    acceleration: float
    before_acceleration: float
    shrink: float
    pause: int
    restarted_at: int = 0
    restarts: int = 0
    least: float = 0.0
    objective: float = math.inf
    ceiling: float = math.inf
    distrusted: bool = False

    @property
    def momentum(self) -> float:
        """(t_(k-1) - 1) / t_k, which extrapolates from the last two points to where the step starts."""
        return (self.before_acceleration - 1.0) / self.acceleration

    def steeper(self, growth: float, proven: bool) -> Pace:
        """One round of backtracking; Algorithm 3 goes back to before the extrapolation, Algorithm 4 does not."""
        lipschitz = self.lipschitz * growth
        if not proven:
            return replace(self, lipschitz=lipschitz)
        acceleration = _next_acceleration(self.before_acceleration, lipschitz / self.before_lipschitz)
        return replace(self, lipschitz=lipschitz, acceleration=acceleration)

    def onward(self, objective: float, proven: bool, dec: bool) -> Pace:
        """After a step to a point of this objective that is kept: Steps 2 (2') and 'dec'."""
        lipschitz = self._shrunk(dec)
        ratio = lipschitz / self.lipschitz if proven else 1.0
        return replace(
            self,
            iteration=self.iteration + 1,
            lipschitz=lipschitz,
            before_lipschitz=self.lipschitz,
            acceleration=_next_acceleration(self.acceleration, ratio),
            before_acceleration=self.acceleration,
            objective=objective,
            ceiling=objective if math.isinf(self.ceiling) else self.ceiling,
            distrusted=False,
        )

    def restarted(self, delta: float, switches: Switches, distrusted: bool) -> Pace:
        """After a step that is thrown away: 're' with 'mt' and 'st'."""
        lipschitz = self._shrunk(switches.dec)
        return replace(
            self,
            iteration=self.iteration + 1,
            lipschitz=lipschitz,
            before_lipschitz=self.lipschitz,
            acceleration=1.0,
            before_acceleration=0.0,
            shrink=delta * self.shrink + (1.0 - delta) if switches.st else self.shrink,
            pause=2 * self.pause if switches.mt else self.pause,
            restarted_at=self.iteration,
            restarts=self.restarts + 1,
            ceiling=self.objective,
            distrusted=distrusted,
        )

    def may_restart(self, mt: bool) -> bool:
        """Whether the pause after the last restart is over."""
        return not mt or self.iteration > self.restarted_at + self.pause

    def _shrunk(self, dec: bool) -> float:
        return max(self.lipschitz / self.shrink, self.least) if dec else self.lipschitz


def _next_acceleration(acceleration: float, ratio: float) -> float:
    return 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * ratio * acceleration * acceleration))
