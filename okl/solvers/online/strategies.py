"""Budget strategies by name: Perceptron, RBP, Forgetron, Projectron, BPA, BOGD, BSGD, NORMA, TVM."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from okl.compiled import budget
from okl.compiled import budget_maintenance as maintenance
from okl.compiled.budget import Replacement
from okl.compiled.kernels import GAUSSIAN, KernelRule
from okl.compiled.sgd import ROWS
from okl.data.execution import Rows
from okl.features.bandwidth import kernel_with_bandwidth
from okl.foundation import catalogue
from okl.foundation.class_tags import stored
from okl.foundation.errors import ConfigError
from okl.foundation.types import Mode, Task
from okl.foundation.validation import check_at_least, check_choice, check_positive
from okl.kernels import Kernel
from okl.losses import Loss
from okl.solvers.online.base import PLAIN_STEPS, BuildContext, BuiltLearner, check_loss, least_error, progressive_error
from okl.solvers.online.budget import BudgetLearner, BudgetStrategy, Change, GrowingLearner, Strategy, check_budget

# The kernel Perceptron and OGD, without a budget.


@dataclass(frozen=True)
class GrowingStrategy(Strategy):
    """Base of strategies without a budget; step_size : > 0; kind : of the compiled step."""

    step_size: float = 1.0
    positive: ClassVar[tuple[str, ...]] = ("step_size",)
    kind: ClassVar[int]

    @property
    def numbers(self) -> Replacement:
        return Replacement(self.kind, budget.BY_CHANCE, self.step_size)


@stored("perceptron")
@dataclass(frozen=True)
class Perceptron(GrowingStrategy):
    """Every mistake becomes a support: f <- f + step_size y k(x, .); memory grows with the mistakes.

    With several classes the true class takes +step_size and the best wrong one -step_size; in a regression a mistake is
    |y - f| > epsilon, and the step has the sign of y - f.

    step_size : > 0; its size matters to a regression only

    Source: Freund & Schapire, Machine Learning 37, 1999, Figure 1 (one pass); several classes after Crammer & Singer,
    JMLR 3, 2003, section 3; regression as Lu et al., JMLR 17(47), 2016, section 7.4.1.
    """

    name: ClassVar[str] = "perceptron"
    size_free: ClassVar[bool] = True
    kind: ClassVar[int] = budget.PERCEPTRON


@stored("kernel-ogd")
@dataclass(frozen=True)
class OnlineGradientDescent(GrowingStrategy):
    """Gradient descent on the hinge loss in the kernel's space: f <- f + step_size y k(x, .) where y f < 1.

    With several classes, where the true class leads by less than 1: +step_size for it, -step_size for the best wrong
    one. In a regression f <- f + step_size (y - f) k(x, .) where |y - f| > epsilon. Memory grows with the updates.

    step_size : > 0

    Source: Kivinen, Smola & Williamson, NIPS 2001, without regularisation; as Lu et al., JMLR 17(47), 2016, equations
    (12) and (13) and sections 7.2.1 and 7.4.1, has it.
    """

    step_size: float = 0.4
    name: ClassVar[str] = "ogd"
    kind: ClassVar[int] = budget.GRADIENT


# RBP: the Randomized Budget Perceptron.


@stored("randomized-budget-perceptron")
@dataclass(frozen=True)
class RandomizedBudgetPerceptron(BudgetStrategy):
    """A Perceptron that, when the budget is full, replaces a support drawn uniformly.

    After a mistake: f <- f - a_r k(x_r, .) with r uniform, if the budget is full, and f <- f + step_size y k(x, .).
    With several classes the true class takes +step_size and the best wrong one -step_size; in a regression a mistake is
    |y - f| > epsilon, and the step has the sign of y - f. Shards are joined by dropping random supports of the union.

    step_size : > 0; its size matters to a regression only

    Source: Cavallanti, Cesa-Bianchi & Gentile, Machine Learning 69, 2007, Figure 3; several classes and regression as
    Lu et al., JMLR 17(47), 2016, sections 5.3 and 7.4.1.
    """

    step_size: float = 1.0
    name: ClassVar[str] = "rbp"
    size_free: ClassVar[bool] = True
    positive: ClassVar[tuple[str, ...]] = ("step_size",)
    reduced: ClassVar[Change] = staticmethod(budget.drop_replaced_supports)

    @property
    def numbers(self) -> Replacement:
        return Replacement(budget.PERCEPTRON, budget.BY_CHANCE, self.step_size)


# The Budget Perceptron of Crammer, Kandola and Singer.


@stored("budget-perceptron")
@dataclass(frozen=True)
class BudgetPerceptron(BudgetStrategy):
    """A Perceptron that, when the budget is full, drops the support that the others classify best without it.

    Where y f <= margin: drop r = argmax_i y_i (f(x_i) - a_i k(x_i, x_i)), if the budget is full, then
    f <- f + step_size y k(x, .). With several classes y f is the lead of the true class over the best wrong one, of the
    row and of the supports. The scores of all supports are kept and moved along: O(B) kernel values an update, not the
    paper's O(B^2). Shards are joined by dropping the most redundant supports of the union.

    step_size : > 0; margin : >= 0, rows at or below which are learned

    Source: Crammer, Kandola & Singer, NIPS 2003, Figures 1 and 2; several classes as Lu et al., JMLR 17(47), 2016,
    section 5.3.
    """

    step_size: float = 1.0
    margin: float = 0.0
    name: ClassVar[str] = "budget-perceptron"
    size_free: ClassVar[bool] = True
    tasks: ClassVar[tuple[Task, ...]] = ("binary", "multiclass")
    positive: ClassVar[tuple[str, ...]] = ("step_size",)
    compiled: ClassVar[type[tuple[Any, ...]]] = budget.Redundancy
    recalled: ClassVar[Change] = staticmethod(budget.remember_scores)
    reduced: ClassVar[Change] = staticmethod(budget.drop_redundant)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (np.isfinite(self.margin) and self.margin >= 0):
            raise ConfigError(f"margin = {self.margin!r}; expected a finite number of at least 0.")

    def memory_shape(self, n_outputs: int, capacity: int) -> tuple[int, int]:
        return (n_outputs + 1, capacity)


# The self-tuned Forgetron.


@stored("forgetron")
@dataclass(frozen=True)
class Forgetron(BudgetStrategy):
    """A Perceptron that, when the budget is full, shrinks f and forgets the oldest support.

    After a mistake, y f <= 0: f' = f + step_size y k(x, .); with a full budget f'' = phi f' without its oldest
    support x_r. phi is the largest number of (0, 1] for which the sum of all costs of forgetting,
    (a phi)^2 + 2 a phi (1 - phi mu) with a the size of x_r's coefficient and mu = y_r f'(x_r), stays at or below 15/32
    of the mistakes; its bounds take k(x, x) <= 1. With several classes the true class takes +step_size and the best
    wrong one -step_size, and mu is the score of x_r's own class; in a regression a mistake is |y - f| > epsilon, and
    the step and y_r have the sign of y - f. Shards are joined by shrinking and forgetting the oldest supports of the
    union in the same way.

    step_size : > 0; the paper's is 1, on which its costs and its guarantee rest: it is not chosen on a sample
    shrinks : False forgets the oldest support without shrinking f: less than the paper, and mostly fewer mistakes

    Source: Dekel, Shalev-Shwartz & Singer, SIAM J. Comput. 37, 2008, section 5; several classes and regression as Lu et
    al., JMLR 17(47), 2016, sections 5.3, 7.3.2 and 7.4.1.
    """

    step_size: float = 1.0
    shrinks: bool = True
    name: ClassVar[str] = "forgetron"
    size_free: ClassVar[bool] = True
    positive: ClassVar[tuple[str, ...]] = ("step_size",)
    compiled: ClassVar[type[tuple[Any, ...]]] = budget.Forgetting
    reduced: ClassVar[Change] = staticmethod(budget.forget_oldest)


# Projectron: a Perceptron that projects onto the span of its supports when the budget is full.


@dataclass(frozen=True)
class _Projecting(BudgetStrategy):
    """Base of strategies that project rows onto the span of their supports."""

    buffers: ClassVar[int] = 1
    keeps_matrix: ClassVar[bool] = True
    keeps_root: ClassVar[bool] = True
    reduced: ClassVar[Change] = staticmethod(maintenance.project_excess)


@stored("projectron")
@dataclass(frozen=True)
class Projectron(_Projecting):
    """A Perceptron that adds the projection of a row onto the span of the supports when the budget is full.

    After a mistake: f <- f + step_size y k(x, .) while there is room, then f <- f + step_size y sum_s d_s k(s, .) with
    d = K^(-1) k(supports, x): O(budget^2) for a mistake, O(budget) for other rows, O(budget^2) memory. Several classes
    share the supports: the true class takes +step_size, the best wrong one -step_size. In a regression a mistake is
    |y - f| > epsilon, and the step has the sign of y - f.

    A row whose squared distance to the span is at most 1e-10 of k(x, x) (1e-5 in float32) is projected before the
    budget is full, too: duplicates of a support would make K singular. The original projects by such a threshold alone
    and has no budget; here only the budget decides, as in Lu et al.

    Shards are joined by keeping supports in their order, up to the budget, and projecting the others.

    step_size : > 0; its size matters to a regression only

    Source: Orabona, Keshet & Caputo, JMLR 10, 2009, section 3 (Projectron); a budget, several classes and regression as
    Lu et al., JMLR 17(47), 2016, sections 5.3, 7.2.1 and 7.4.1.
    """

    step_size: float = 1.0
    name: ClassVar[str] = "projectron"
    size_free: ClassVar[bool] = True
    positive: ClassVar[tuple[str, ...]] = ("step_size",)

    @property
    def numbers(self) -> maintenance.Projection:
        """Return the numbers of the compiled step: rows without a mistake are left alone."""
        return maintenance.Projection(self.step_size, -1.0)


# Projectron++: Projectron that also learns, by projections only, from rows whose margin is too small.


@stored("projectron-plus-plus")
@dataclass(frozen=True)
class ProjectronPlus(_Projecting):
    """Projectron, and a step towards the projection of a row that was right with a margin below 1.

    l = 1 - y f (or 1 minus the lead of the true class), P = |projection of k(x, .)|^2, delta its distance to k(x, .):
    f <- f + y tau sum_s d_s k(s, .), tau = min(l / P, 1), where 2 l - tau P >= 2 U delta: there the bound on the
    distance to every function of norm U falls. U = sqrt((budget + 1) / log(budget + 1)) / 4 is the norm up to which
    the Forgetron and this algorithm compete. O(budget^2) for a row with loss.

    With several classes P is that of one class, as in the runs of Lu et al.: the lead in the span becomes 1 + l.

    Source: Orabona, Keshet & Caputo, JMLR 10, 2009, section 4 (Projectron++); the rest as `Projectron`. U by Dekel,
    Shalev-Shwartz & Singer, NIPS 2005, Theorem 1.
    """

    name: ClassVar[str] = "projectron++"
    tasks: ClassVar[tuple[Task, ...]] = ("binary", "multiclass")

    @property
    def numbers(self) -> maintenance.Projection:
        """Return the numbers of the compiled step: steps of 1 after mistakes; rows with a small margin are learned."""
        return maintenance.Projection(1.0, 1.0)


# BPA-S, BPA-NN and BPA-P: budgeted passive-aggressive learning that makes up for a removed support by others.


@dataclass(frozen=True)
class _PassiveAggressive(BudgetStrategy):
    """Base of the three BPA strategies; aggressiveness : C > 0, the longest step."""

    aggressiveness: float = 1.0
    tasks: ClassVar[tuple[Task, ...]] = ("binary", "multiclass")
    positive: ClassVar[tuple[str, ...]] = ("aggressiveness",)


@stored("bpa-simple")
@dataclass(frozen=True)
class BPASimple(_PassiveAggressive):
    """Passive-aggressive steps; when the budget is full, the row takes the place of one support.

    For a row of hinge loss l > 0: tau = min(aggressiveness, l / k(x, x)), f <- f + y tau k(x, .), and when the budget
    is full f <- f - a_r k(x_r, .) + a_r k(x_r, x) / k(x, x) k(x, .), r of least a_r^2 (k(x_r, x_r) - k(x_r, x)^2 /
    k(x, x)), the oldest on a tie: what is best among all such replacements, by the objective of the paper. O(budget).

    Several classes: tau = min(aggressiveness, l / (2 k(x, x))) for the true class, -tau for the best wrong one, and the
    replacement touches every class, with sums of squares over classes in place of a_r^2: O(n_classes budget).

    A row of k(x, x) = 0 changes nothing. Shards are joined by dropping the supports of least |a|^2 k(s, s).

    Source: Wang & Vucetic, AISTATS 2010, section 3 (BPA-S); several classes as Lu et al., JMLR 17(47), 2016, section
    7.3.2, with the step of Crammer et al., JMLR 7, 2006, section 8.
    """

    name: ClassVar[str] = "bpa-s"
    compiled: ClassVar[type[tuple[Any, ...]]] = maintenance.SimplePassive
    buffers: ClassVar[int] = 2
    recalled: ClassVar[Change] = staticmethod(maintenance.remember_squared_norms)
    reduced: ClassVar[Change] = staticmethod(maintenance.drop_lightest)


@stored("bpa-nearest")
@dataclass(frozen=True)
class BPANearest(_PassiveAggressive):
    """BPA-S whose removed support is made up for by the row and by its own nearest neighbour among the supports.

    a_r k(x_r, .) is projected onto the span of k(x, .) and k(x_n, .); r is the support where that changes f least, the
    oldest on a tie. O(n_classes budget), but for supports that lose their nearest neighbour, of which there is about
    one a step. Shards are joined by projecting the cheapest supports onto their nearest neighbours.

    Source: Wang & Vucetic, AISTATS 2010, section 3 (BPA-NN); the rest as `BPASimple`.
    """

    name: ClassVar[str] = "bpa-nn"
    compiled: ClassVar[type[tuple[Any, ...]]] = maintenance.NearestPassive
    buffers: ClassVar[int] = 5
    recalled: ClassVar[Change] = staticmethod(maintenance.remember_neighbours)
    reduced: ClassVar[Change] = staticmethod(maintenance.remove_to_neighbours)


@stored("bpa-projection")
@dataclass(frozen=True)
class BPAProjection(_PassiveAggressive):
    """BPA-S whose removed support is made up for by all others: projected onto the span of row and supports.

    r is the support where that changes f least, the oldest on a tie: O(n_classes budget + budget^2) for a row with
    loss, by a root of the inverse of the kernel matrix, where the paper solves budget systems in O(budget^3). A row in
    the span of the supports, by the threshold of `Projectron`, is spread over them. Shards are joined in the same way.

    Source: Wang & Vucetic, AISTATS 2010, section 3 (BPA-P); the rest as `BPASimple`.
    """

    name: ClassVar[str] = "bpa-p"
    compiled: ClassVar[type[tuple[Any, ...]]] = maintenance.ProjectingPassive
    buffers: ClassVar[int] = 3
    keeps_matrix: ClassVar[bool] = True
    keeps_root: ClassVar[bool] = True
    reduced: ClassVar[Change] = staticmethod(maintenance.remove_from_span)


# BOGD and BOGD++: bounded online gradient descent.


@stored("bogd")
@dataclass(frozen=True)
class BoundedGradientDescent(BudgetStrategy):
    """BOGD: gradient descent on the regularised hinge loss; when the budget is full, a support drawn uniformly goes.

    f <- (1 - step_size regularisation) f every row; where y f < 1, f <- f - a_r k(x_r, .) with r uniform, if the budget
    is full, and f <- f + step_size y k(x, .). Several classes and a regression step as OGD does. Shards are joined by
    dropping supports of the union in the same way.

    step_size : > 0; regularisation : >= 0, step_size * regularisation < 1
    rescale : whether those who stay are multiplied by B / (B - 1), so that f stays right on average, as in the paper
    largest : coefficients are brought into [-largest step_size, largest step_size] after a step; None for no bound
    removal : "random" as the paper, or "oldest", as the tables of Lu et al. for several classes and regressions have it
    Source: Zhao, Wang, Wu, Jin & Hoi, ICML 2012 (arXiv 1206.4633), BOGD by uniform sampling; several classes and
    regression as Lu et al., JMLR 17(47), 2016, sections 5.3 and 7.4.1.
    """

    step_size: float = 0.5
    regularisation: float = 0.01
    rescale: bool = False
    largest: float | None = None
    removal: Literal["random", "oldest"] = "random"
    name: ClassVar[str] = "bogd"
    reduced: ClassVar[Change] = staticmethod(budget.drop_replaced_supports)

    def __post_init__(self) -> None:
        check_decay(self.step_size, self.regularisation, self.largest)
        check_choice("removal", self.removal, ("random", "oldest"))

    @property
    def numbers(self) -> Replacement:
        removal = budget.OLDEST if self.removal == "oldest" else budget.BY_CHANCE
        decay = 1.0 - self.step_size * self.regularisation
        largest = math.inf if self.largest is None else self.largest * self.step_size
        return Replacement(budget.GRADIENT, removal, self.step_size, decay, grows=self.rescale, largest=largest)


@stored("bogd-plus-plus")
@dataclass(frozen=True)
class SampledGradientDescent(BudgetStrategy):
    """BOGD++: BOGD that draws the support to remove by its weight, small ones more often.

    Support i goes with the chance p_i = 1 - (B - 1) w_i / sum_j w_j, w_i = ||a_i|| k(x_i, x_i)^(1/2), and those who
    stay are divided by their chance to stay, 1 - p_i: f stays right on average. A negative p_i counts as 0, and all
    are divided by their sum. The rest is as in BOGD.

    step_size : > 0; regularisation : >= 0, step_size * regularisation < 1
    largest : coefficients are brought into [-largest step_size, largest step_size] after a step; None for no bound,
        with which few supports can carry most of f, and a regression's errors grow

    Source: Zhao, Wang, Wu, Jin & Hoi, ICML 2012 (arXiv 1206.4633), BOGD++ by non-uniform sampling.
    """

    step_size: float = 0.5
    regularisation: float = 0.01
    largest: float | None = 1.0
    name: ClassVar[str] = "bogd++"
    reduced: ClassVar[Change] = staticmethod(budget.drop_replaced_supports)
    buffers: ClassVar[int] = 2
    recalled: ClassVar[Change] = staticmethod(budget.remember_norms)

    def __post_init__(self) -> None:
        check_decay(self.step_size, self.regularisation, self.largest)

    @property
    def numbers(self) -> Replacement:
        largest = math.inf if self.largest is None else self.largest * self.step_size
        decay = 1.0 - self.step_size * self.regularisation
        return Replacement(budget.GRADIENT, budget.BY_WEIGHT, self.step_size, decay, largest=largest)


def check_decay(step_size: float, regularisation: float, largest: float | None) -> None:
    """Raise ConfigError unless the numbers of BOGD make sense together."""
    check_positive("step_size", step_size)
    if not (regularisation >= 0 and step_size * regularisation < 1):
        raise ConfigError(
            f"regularisation = {regularisation!r}; expected a number of at least 0 whose product "
            f"with step_size = {step_size:g} is below 1."
        )
    if largest is not None:
        check_positive("largest", largest)


# BSGD: stochastic gradient descent on a support vector machine's objective, with removal or merging of supports.


@dataclass(frozen=True)
class _KernelPegasos(BudgetStrategy):
    """Base of the two; regularisation : lambda > 0 of regularisation / 2 |f|^2 + mean hinge loss."""

    regularisation: float = 1e-4
    tasks: ClassVar[tuple[Task, ...]] = ("binary", "multiclass")
    positive: ClassVar[tuple[str, ...]] = ("regularisation",)
    spare_slots: ClassVar[int] = 1

    def remember(self, supports: budget.SupportArrays, rule: budget.BudgetRule) -> None:
        """Compute memory, and count coefficients in steps of the rows learned so far; modify `supports` in place."""
        super().remember(supports, rule)
        scale = 1.0 / (self.regularisation * max(1, int(supports.counts[ROWS])))
        supports.coefficients[:] = supports.coefficients * (supports.floats[budget.SCALE] / scale)
        supports.floats[budget.SCALE] = scale


@stored("bsgd-removal")
@dataclass(frozen=True)
class BSGDRemoval(_KernelPegasos):
    """Pegasos in a kernel expansion; when the budget is full, the least support goes.

    Row t = 1, 2, ..: f <- (1 - 1 / t) f, and where the hinge loss was positive f <- f + y k(x, .) / (regularisation t).
    Then the support of least |a|^2 k(s, s) goes, the oldest on a tie; with k(s, s) = 1 all tie, and the oldest goes.
    With several classes the true class takes the step, and the best wrong one its negative. O(n_classes budget).

    Source: Wang, Crammer & Vucetic, JMLR 13, 2012, Algorithms 1 and 2, budget maintenance by removal.
    """

    name: ClassVar[str] = "bsgd-removal"
    compiled: ClassVar[type[tuple[Any, ...]]] = maintenance.Removal
    buffers: ClassVar[int] = 2
    recalled: ClassVar[Change] = staticmethod(maintenance.remember_squared_norms)
    reduced: ClassVar[Change] = staticmethod(maintenance.drop_lightest)


@stored("bsgd-merging")
@dataclass(frozen=True)
class BSGDMerging(_KernelPegasos):
    """Pegasos in a kernel expansion; when the budget is full, two supports become one between them.

    Steps as in `BSGDRemoval`. Then the support m of least |a|, the newest on a tie, is merged with the one j where that
    changes f least: z = h x_m + (1 - h) x_j, a_z = k^((1-h)^2) a_m + k^(h^2) a_j with k = k(x_m, x_j), for the best h
    in [0, 1/2] (where it is, as |a_m| <= |a_j|). Supports of opposite signs may meet; then j just takes over what it
    can. O(n_classes budget). The Gaussian kernel only: for others no such z is known.

    Source: Wang, Crammer & Vucetic, JMLR 13, 2012, Algorithms 1 and 2, budget maintenance by merging.
    """

    name: ClassVar[str] = "bsgd-merging"
    compiled: ClassVar[type[tuple[Any, ...]]] = maintenance.Merging
    buffers: ClassVar[int] = 6
    reduced: ClassVar[Change] = staticmethod(maintenance.merge_excess)

    def check_kernel(self, kernel: KernelRule) -> None:
        """Raise ConfigError unless the kernel is Gaussian."""
        if kernel.code != GAUSSIAN:
            raise ConfigError(
                "bsgd-merging merges two supports on the line between them, which is optimal for the "
                "Gaussian kernel only. Use that kernel, or bsgd-removal."
            )


# NORMA: stochastic gradient descent in the kernel's space, with forgetting and a margin that adapts.


@stored("norma")
@dataclass(frozen=True)
class Norma(BudgetStrategy):
    """f <- (1 - step_size regularisation) f every row, and + step_size y k(x, .) for a row beyond the margin.

    A row is beyond when y f < margin, or the true class leads by less than margin, or |y - f| > epsilon in a
    regression, where the step has the sign of y - f. With nu the margin adapts until a share nu of the rows is beyond:
    margin -= step_size (1 - nu) for a row beyond it and += step_size nu for others; epsilon of a regression moves the
    other way. With a budget the oldest support is dropped, which is the paper's truncation; without, all stay.

    step_size : > 0; regularisation : >= 0, step_size * regularisation <= 0.9
    nu : share in (0, 1), or None for a margin that stays
    margin : at first, for classes; a regression starts with the learner's epsilon

    Source: Kivinen, Smola & Williamson, IEEE Trans. Signal Processing 52(8), 2004, Figure 1 and section III; Lu et al.,
    JMLR 17(47), 2016, section 7.4.1 (a regression whose epsilon adapts).
    """

    step_size: float = 0.03
    regularisation: float = 0.01
    nu: float | None = 0.4
    margin: float = 1.0
    name: ClassVar[str] = "norma"
    positive: ClassVar[tuple[str, ...]] = ("step_size",)
    reduced: ClassVar[Change] = staticmethod(budget.drop_replaced_supports)

    def __post_init__(self) -> None:
        super().__post_init__()
        decay = self.step_size * self.regularisation
        if not (self.regularisation >= 0 and decay <= 0.9):
            raise ConfigError(
                f"regularisation = {self.regularisation!r}; expected a number of at least 0 whose "
                f"product with step_size = {self.step_size:g} is at most 0.9."
            )
        if self.nu is not None and not 0 < self.nu < 1:
            raise ConfigError(
                f"nu = {self.nu!r}; expected a share of the rows in (0, 1), or None for a constant margin."
            )
        if not np.isfinite(self.margin):
            raise ConfigError(f"margin = {self.margin!r}; expected a finite number.")

    @property
    def numbers(self) -> Replacement:
        decay, share = 1.0 - self.step_size * self.regularisation, -1.0 if self.nu is None else self.nu
        return Replacement(budget.NORMA, budget.OLDEST, self.step_size, decay, share)

    def own_floats(self, task: Task, epsilon: float) -> tuple[float, ...]:
        return (float(epsilon if task == "regression" else self.margin),)


# TVM: a support vector machine on a budget of twin vectors, each of which represents many rows of both classes.


@stored("twin-vector-machine")
@dataclass(frozen=True)
class TwinVectors(BudgetStrategy):
    """A support vector machine on twin vectors: points with counts of the positive and negative rows they represent.

    f minimises 1/2 |f|^2 + aggressiveness sum_i (s+_i max(0, 1 - f(x_i)) + s-_i max(0, 1 + f(x_i))) over the twins. A
    row within the margin becomes a twin with a count of 1. When the budget is full, the twin farthest outside of the
    margin goes, if it has rows of its own side only, so that f needs it no more; if there is none, two near twins
    become one: the mean of their places, weighted by counts, with summed counts. Then f is solved for again.
    O(budget^2) time and memory, as in Table 1 of Lu et al.; two classes only; any kernel.

    Of the paper: twins and their counts, that f is kept optimal for them, who enters, the three steps of an update, and
    merging by means and sums; removal of the farthest is of its second version. A reading of it, where only summaries
    could be looked up: f has no constant term, as no learner here has, and is optimal up to `tolerance` or `sweeps`
    of dual descent, where the paper follows the optimum by incremental and decremental learning (a duality gap of at
    most .3% on german, spambase, a9a and ijcnn1; a tenth of it does not lower their errors); the margin is 1 for
    entering and for removal; of several ways to choose a pair this one is the variance that a merge adds, see
    okl.compiled.budget_maintenance.

    Rows of k(x, x) = 0 are skipped. Shards are joined by the union of their twins; counts are scaled to sum to those
    before and what each shard added, as each has what was there before. Then f is solved for, and room made as above.

    aggressiveness : C > 0, the largest coefficient that one row gives its twin
    unlike : > 0, how often a pair of rows of unlike classes counts against merging their twins
    tolerance : in (0, 1), of scores: a row nearer to the margin does not enter, and descent ends at smaller steps
    sweeps : >= 1, over all twins, at most, after every change
    Source: Wang & Vucetic, Twin Vector Machines for Online Learning on a Budget, SDM 2009, and Online Training on a
    Budget of Support Vector Machines Using Twin Prototypes, Statistical Analysis and Data Mining 3, 2010.
    """

    aggressiveness: float = 1.0
    unlike: float = 10.0
    tolerance: float = 1e-2
    sweeps: int = 10
    name: ClassVar[str] = "tvm"
    positive: ClassVar[tuple[str, ...]] = ("aggressiveness", "unlike", "tolerance")
    compiled: ClassVar[type[tuple[Any, ...]]] = maintenance.Twins
    tasks: ClassVar[tuple[Task, ...]] = ("binary",)
    spare_slots: ClassVar[int] = 1
    count_rows: ClassVar[int] = 2
    buffers: ClassVar[int] = 5
    keeps_matrix: ClassVar[bool] = True
    recalled: ClassVar[Change] = staticmethod(maintenance.remember_twins)
    reduced: ClassVar[Change] = staticmethod(maintenance.reduce_twins)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tolerance >= 1.0:
            raise ConfigError(f"tolerance = {self.tolerance!r}; expected a share of the margin in (0, 1).")
        check_at_least("sweeps", self.sweeps, 1)


# Strategies by name.

STRATEGIES: dict[str, type[Strategy]] = {name: catalogue.load(path) for name, path in catalogue.STRATEGIES.items()}


# The factory: bandwidth and step size from a sample.

Learner = BudgetLearner | GrowingLearner


@dataclass(frozen=True)
class BudgetFactory:
    """Predict, suffer, then learn, one row at a time, with support vectors: at most a budget of them, or all.

    strategy : what is learned from a row, and what makes room
    loss : of the table: its task, and the threshold of a regression
    kernel : a name; bandwidth : None for the median distance of the sample
    budget : most support vectors; a strategy that keeps all has none
    race : choose the strategy's step size on the sample, rather than take it as it is
    degree, offset : of the polynomial kernel
    Source: Lu et al., JMLR 17(47), 2016, sections 5.3 and 7; each strategy names its own paper.
    """

    strategy: Strategy
    loss: Loss
    kernel: str = "gaussian"
    bandwidth: float | None = None
    budget: int = 100
    race: bool = False
    degree: int = 3
    offset: float = 1.0
    modes: tuple[Mode, ...] = ("stream", "mix")

    @property
    def name(self) -> str:
        return self.strategy.name

    def build(self, context: BuildContext) -> BuiltLearner:
        """Choose bandwidth and open step size on the sample; ConfigError if loss, budget or kernel does not fit."""
        check_loss(self.loss, context.schema)
        kernel, chosen = kernel_with_bandwidth(
            self.kernel, self.bandwidth, context.sample.inputs, self.degree, self.offset
        )
        strategy = self.strategy
        if isinstance(strategy, BudgetStrategy):
            if context.rows is not None:
                check_budget(self.budget, context.rows)
            chosen = chosen | {"budget": self.budget}
        learner = _learner(strategy, kernel, self.loss, self.budget, context)
        if "step_size" in vars(strategy):
            step_size = float(vars(strategy)["step_size"])
            reason = "the solver's own" if strategy == type(strategy)() else "as given"
            if self.race:
                step_size, reason, learner = _raced(learner, strategy, step_size, context.sample)
            chosen = chosen | {"step_size": step_size, "step_size_reason": reason}
        return BuiltLearner(learner, chosen)


def _learner(strategy: Strategy, kernel: Kernel, loss: Loss, budget: int, context: BuildContext) -> Learner:
    schema = context.schema
    sizes: dict[str, Any] = {
        "task": loss.task,
        "n_inputs": schema.n_features,
        "n_outputs": schema.n_outputs,
        "epsilon": float(getattr(loss, "epsilon", 0.0)),
        "precision": context.precision,
    }
    if isinstance(strategy, BudgetStrategy):
        return BudgetLearner(kernel, strategy, budget=budget, seed=context.seed, **sizes)
    return GrowingLearner(kernel, strategy, **sizes)


def _raced(learner: Learner, strategy: Any, own: float, sample: Rows) -> tuple[float, str, Learner]:
    """Return the step size whose progressive error on the sample is least, its own on a tie; why; and the learner."""
    steps = [own, *(step for step in PLAIN_STEPS if step != own)]
    racers = [replace(learner, strategy=replace(strategy, step_size=step)) for step in steps]
    step_size, reason = least_error(steps, [progressive_error(racer, sample) for racer in racers], sample)
    return step_size, reason, racers[steps.index(step_size)]
