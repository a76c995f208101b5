"""A learner and the best weights in hindsight over its first rows: regret, and what theory puts on it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from okl.accelerated.hindsight import Hindsight
from okl.features.fourier import FourierFeatures
from okl.online.constrained import ConstrainedLearner
from okl.online.learner import LinearLearner
from okl.online.regret import (
    KernelSetting,
    Played,
    Steps,
    constrained_bound,
    kernel_space_bound,
    map_space_bound,
)
from okl.solvers import Standing
from okl.store.dataset import Schema


@dataclass(frozen=True, eq=False)
class Horizon:
    """Learner and comparator on the first rows."""

    played: Played
    learner: LinearLearner
    hindsight: Hindsight

    @classmethod
    def of(cls, standing: Standing, learner: LinearLearner, hindsight: Hindsight) -> Horizon:
        """Where the learner stands, and the best weights over the same rows."""
        sums = standing.surrogate, standing.squared_gradients, standing.stepped_gradients
        return cls(Played(standing.done_rows, *sums), learner, hindsight)

    @property
    def regret(self) -> float:
        """What was lost more than by the weights found in hindsight."""
        return self.played.loss - self.hindsight.certificate.primal

    @property
    def steps(self) -> Steps:
        """Step sizes of the learner."""
        return Steps(self.learner.step_size, self.learner.decaying)

    @property
    def radius(self) -> float:
        """Of the ball."""
        assert self.learner.radius is not None
        return self.learner.radius

    def _bound(self, norm: float) -> float | None:
        """What theory puts on the regret against weights of a norm, None where it claims nothing."""
        if not isinstance(self.learner, ConstrainedLearner):
            return map_space_bound(self.played, self.steps, self.radius, norm)
        return constrained_bound(self.played, self.steps, self.radius, norm) if self.learner.covered else None

    def figures(self) -> dict[str, Any]:
        """The regret is against the weights found; against the best ones it is at most regret_at_most."""
        norm = float(np.linalg.norm(self.hindsight.weights))
        return {
            "rows": self.played.rows,
            "loss": self.played.loss,
            "regret": self.regret,
            "regret_at_most": self.played.loss - self.hindsight.certificate.dual,
            "average_regret": self.regret / self.played.rows,
            "bound": self._bound(norm),
        }

    def comparator(self) -> dict[str, Any]:
        """What the weights found in hindsight lose, and how far from the best ones they are at most."""
        proof = self.hindsight.certificate
        return {
            "objective": proof.primal,
            "dual_objective": proof.dual,
            "relative_gap": proof.relative_gap,
            "radius": self.radius,
            "norm": float(np.linalg.norm(self.hindsight.weights)),
            "iterations": self.hindsight.iterations,
            "reason": self.hindsight.reason,
        } | self._limits()

    def _limits(self) -> dict[str, Any]:
        """What the quantities of constraints come to for the comparator; nothing without constraints."""
        if not isinstance(self.learner, ConstrainedLearner):
            return {}
        kept = self.learner.kept
        return {
            "values": kept.values(self.hindsight.weights).tolist(),
            "excess": float(kept.excess(self.hindsight.weights).max()),
        }

    def kernel_bound(self, schema: Schema) -> dict[str, Any] | None:
        """Theorem 1 against f = sum_t alpha_t k(x_t, .) with the comparator's own alpha; None for other maps."""
        feature_map = self.learner.feature_map
        if not isinstance(feature_map, FourierFeatures) or isinstance(self.learner, ConstrainedLearner):
            return None
        setting = KernelSetting(
            n_inputs=feature_map.n_inputs,
            n_frequencies=feature_map.n_frequencies,
            diameter=_diameter(schema),
            second_moment=_second_moment(feature_map),
            lipschitz=max(self.learner.class_weights or (1.0,)),
            l1_norm=self.hindsight.l1_norm,
        )
        step = self.steps.at(self.played.rows)
        bound = kernel_space_bound(self.played, step, setting)
        return {
            "theorem": "Lu et al., JMLR 17(47), 2016, Theorem 1",
            "bound": bound.bound,
            "epsilon": bound.epsilon,
            "probability": bound.probability,
            "step": step,
            "l1_norm": setting.l1_norm,
            "diameter": setting.diameter,
            "second_moment": setting.second_moment if math.isfinite(setting.second_moment) else None,
            "vacuous": bound.vacuous,
        }


def _diameter(schema: Schema) -> float:
    """Of the box that holds the training rows' inputs."""
    _, factors = schema.shift_and_factor
    sides = np.array([column.maximum - column.minimum for column in schema.feature_statistics]) * factors
    return float(np.linalg.norm(sides))


def _second_moment(feature_map: FourierFeatures) -> float:
    """E ||u||^2 of the kernel's frequencies u; infinite for the Laplacian kernel, whose frequencies are Cauchy."""
    degrees = {"gaussian": math.inf, "matern52": 5.0, "matern32": 3.0}.get(feature_map.kernel.name, 0.0)
    if degrees <= 2.0:
        return math.inf
    # normal frequencies, or Student's of these degrees of freedom, whose variance is degrees / (degrees - 2)
    spread = 1.0 if math.isinf(degrees) else degrees / (degrees - 2.0)
    return spread * feature_map.n_inputs / float(feature_map.kernel.bandwidth) ** 2  # type: ignore[attr-defined]
