"""A start for the accelerated method, from accelerated steps on random parts of the data; Fapg goes on from there.

A model with a dual entry a row moves random blocks of them, one after the other, each down its own part of the dual
objective while all others rest: the sums that the set binds stay what they are, so that every point on the way is
feasible, those of nu-SVM too. A block's gradient has a far smaller Lipschitz constant than that of all rows, and its
rows stay in cache for all its steps. An l1 model takes its steps on random samples of rows, each larger than the last;
a minimax model is solved for the moments of a sample.

It is off unless asked for. Measured by tests.benchmarks.stochastic on 20,000 rows of ijcnn1, covtype_binary, a9a and
w7a, to a relative gap of 1e-2: nu-SVM takes 7 to 99 reads of the rows with it and 26 to 159 without, in 0.8 to 3 times
the seconds; C-SVM and logistic gain a quarter of their seconds or lose as much and more, by the set; DWD's own start is
within 1e-4 already, and minimax models read their rows once whatever happens.

Source: blocks as in Shalev-Shwartz & Zhang, JMLR 14, 2013; growing samples as in Byrd, Chin, Nocedal & Wu, Mathematical
Programming 134, 2012; Ito et al., 2017, section 7, ask for a stochastic variant of their method.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from okl.accelerated.blockparts import AffineRows, cut_of, part_of
from okl.accelerated.blocksteps import go_down, objective
from okl.accelerated.dual import DualProblem
from okl.accelerated.minimax import MinimaxProblem
from okl.accelerated.moments import ClassMoments, moments_of, square_root
from okl.accelerated.operators import DenseRows
from okl.accelerated.protocol import Problem
from okl.accelerated.sparsity import SparseProblem
from okl.checks import check_at_least
from okl.errors import ConfigError
from okl.types import FloatArray, IntArray

SAMPLE_GROWTH = 4  # from one sample of an l1 model to the next


@dataclass(frozen=True)
class StochasticStart:
    """How long to go, and in which parts of the data.

    Parameters
    ----------
    rounds : int >= 1; each visits every row once, or takes a sample that is four times the last one
    steps : int >= 1, accelerated steps on a block or a sample at a visit
    block_rows : int >= 2
    seed : int

    Raises
    ------
    ConfigError : a number outside its range
    """

    rounds: int = 5
    steps: int = 10
    block_rows: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        check_at_least("rounds", self.rounds, 1)
        check_at_least("steps", self.steps, 1)
        check_at_least("block_rows", self.block_rows, 2)

    def point(self, problem: Problem, rows: Any = None, weights: FloatArray | None = None) -> FloatArray:
        """A feasible point (n_points,) of a problem to start Fapg from, its objective no higher than its own start's.

        rows, weights : that the problem was made of; only a minimax problem, which knows moments alone, asks for them

        Raises
        ------
        ConfigError : the rows are not explicit, or no part of such a problem is known
        """
        if isinstance(problem, DualProblem):
            return self._dual_point(problem)
        if isinstance(problem, SparseProblem):
            return self._sparse_point(problem)
        if isinstance(problem, MinimaxProblem) and isinstance(rows, DenseRows):
            return self._minimax_point(problem, rows, weights)
        raise ConfigError(
            f"No stochastic start is known for {type(problem).__name__}: start from the problem's own point."
        )

    def blocks(self, n_rows: int, *turn: int) -> list[IntArray]:
        """Rows 0 to n_rows - 1 in blocks drawn by the seed and the turn, each in order: memory is read forwards."""
        order = np.random.default_rng((self.seed, *turn)).permutation(n_rows)
        return [np.sort(block) for block in np.array_split(order, max(1, n_rows // self.block_rows))]

    def sample(self, n_rows: int, number: int, *turn: int) -> IntArray:
        """The rows of sample `number` from 0, in order: the last of all rounds takes a quarter of the rows.

        A sample holds no fewer than a block, where there are that many rows.
        """
        share = float(SAMPLE_GROWTH) ** (number - self.rounds)
        size = min(n_rows, max(round(share * n_rows), self.block_rows))
        return np.sort(np.random.default_rng((self.seed, number, *turn)).choice(n_rows, size, replace=False))

    def _dual_point(self, problem: DualProblem) -> FloatArray:
        point = problem.start()
        image: FloatArray = np.empty(problem.n_image)
        problem.image(image, point)
        for number in range(self.rounds):
            for block in self.blocks(problem.n_points, number):
                part = part_of(problem, block, point[block], image)
                point[block], image = go_down(part, point[block], image, self.steps)
        return _not_above_start(problem, point)

    def _sparse_point(self, problem: SparseProblem) -> FloatArray:
        point = problem.start()
        for number in range(self.rounds):
            sample = self.sample(problem.n_image, number)
            cut, signs = cut_of(problem.rows, sample), problem.rows.signs[sample]
            part = sampled(problem, cut, signs, problem.weights[sample], float(problem.weights.sum()))
            margins = np.empty(part.n_image)
            part.image(margins, point)
            point, _ = go_down(part, point, margins, self.steps)
        return _not_above_start(problem, point)

    def _minimax_point(self, problem: MinimaxProblem, rows: DenseRows, weights: FloatArray | None) -> FloatArray:
        sample = self.sample(rows.n_points, self.rounds - 1)
        inputs, signs = rows.rows[sample], rows.signs[sample]
        counted = np.ones(len(sample)) if weights is None else np.asarray(weights, dtype=np.float64)[sample]
        found = [moments_of(inputs[signs == sign], counted[signs == sign]) for sign in (1.0, -1.0)]
        if min(one.count for one in found) <= 0.0:
            return problem.start()
        return self.minimax_point_of(problem, ClassMoments(found[0], found[1]))

    def minimax_point_of(self, problem: MinimaxProblem, moments: ClassMoments) -> FloatArray:
        """The point of a minimax problem, from the moments of a sample: the solution there, as far as steps lead."""
        positive, negative = moments.covariances
        several = problem.n_balls == 2
        roots = [square_root(positive), -square_root(negative)] if several else [square_root(positive + negative)]
        part = replace(problem, difference=moments.difference, roots=np.hstack(roots))
        point, image = part.start(), part.difference.copy()
        for _ in range(self.rounds):
            point, image = go_down(part, point, image, self.steps)
        return _not_above_start(problem, point)


def sampled(problem: SparseProblem, rows: Any, signs: FloatArray, weights: FloatArray, total: float) -> SparseProblem:
    """The l1 problem of a sample (b, n) of its rows, of signs and weights (b,), whose losses weigh `total` together."""
    operator = AffineRows(rows, signs, np.zeros(rows.shape[1]))
    factor = total / max(float(weights.sum()), float(np.finfo(np.float64).tiny))
    return replace(problem, rows=operator, weights=factor * weights)  # type: ignore[arg-type]


def _not_above_start(problem: Problem, point: FloatArray) -> FloatArray:
    """The point, or the problem's own start where that is lower."""
    own, image, own_image = problem.start(), np.empty(problem.n_image), np.empty(problem.n_image)
    problem.image(image, point)
    problem.image(own_image, own)
    return point if objective(problem, point, image) <= objective(problem, own, own_image) else own
