"""One class against another, or against the rest, over shards: which problem that is, begun, gone on with, solved."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from okl.accelerated.catalogue import model_class
from okl.accelerated.classifier import Classifier
from okl.accelerated.dual import DualProblem
from okl.accelerated.fapg import Fapg
from okl.accelerated.fapgstate import FapgState
from okl.accelerated.minimax import MinimaxProblem
from okl.accelerated.models import MMFDA, MMMPM
from okl.accelerated.models.mmfda import fda_kappa_max
from okl.accelerated.models.mmmpm import mpm_kappa_max
from okl.accelerated.models.nusvm import NuSVM, nu_max
from okl.accelerated.protocol import Certificate
from okl.accelerated.sharded.beside import Beside
from okl.accelerated.sharded.classmoments import sharded_moments
from okl.accelerated.sharded.dual import ShardedDual
from okl.accelerated.sharded.dualbegin import Carried, begin_dual
from okl.accelerated.sharded.dualvectors import OpenDual
from okl.accelerated.sharded.primal import ShardedPrimal, begin_primal
from okl.accelerated.sharded.primalvectors import OpenPrimal
from okl.accelerated.sharded.prototype import Classes, outer_at, prototype_of
from okl.accelerated.sharded.rounds import Log, Rounds
from okl.accelerated.sharded.rows import MappedRows
from okl.accelerated.sharded.stochastic import descend_primal, minimax_start
from okl.accelerated.sharded.task import Task
from okl.accelerated.sharded.visits import visit_dual
from okl.accelerated.sharded.warm import Warm, begin_warm, begin_warm_primal
from okl.accelerated.sparsity import SparseProblem
from okl.accelerated.stochastic import StochasticStart
from okl.errors import ConfigError
from okl.execution.protocol import Execution
from okl.types import FloatArray


@dataclass(frozen=True, eq=False)
class Standpoint:
    """Where the solution of one class stands; a value.

    fapg : state of the method, whose points lie beside the shards; value : of the parameter
    log, carried, work : of a run over shards; minimax : the problem of a model that knows moments only
    """

    fapg: FapgState
    value: float
    log: Log
    carried: Carried | None
    work: Beside | None
    minimax: MinimaxProblem | None = None


@dataclass(frozen=True)
class OneClass:
    """A problem of two classes.

    task : which model; classes : rows and weights of their groups, +1 first
    positive : class that is +1, None where targets are -1 and +1; scratch : folder of checkpoints, or None
    start : where to begin; None: at the problem's own point; warm : a solution for other rows, to begin at
    """

    task: Task
    classes: Classes
    positive: int | None
    scratch: Path | None
    start: StochasticStart | None = None
    warm: Warm | None = None

    def check(self) -> None:
        """Raise ConfigError for a parameter that cannot be valid for classes of these sizes."""
        if self._of_moments:
            self.task.model(np.inf)
        else:
            prototype_of(self._model, self.classes)

    def begin(self, rows: MappedRows, method: Fapg, execution: Execution) -> Standpoint:
        """At the first point, checked.

        Raises
        ------
        ConfigError : a parameter outside the valid range for these rows
        DataError : shards that cannot be read, or a class of too few rows
        """
        shards = rows.data.split("train")
        if self._of_moments:
            return self._begin_minimax(rows, method, execution)
        prototype = prototype_of(self._model, self.classes)
        run, log, carried, n_groups = secrets.token_hex(8), Log(), None, len(self.classes.rows)
        if isinstance(prototype, SparseProblem):
            work = Beside(run, OpenPrimal(rows, prototype, self.positive, n_groups), self.scratch)
            rounds = Rounds(execution, shards, work, log)
            lipschitz, here = begin_primal(prototype, rounds, rows.n_columns)
            if self.start is not None:
                total = float(prototype.weights @ np.array(self.classes.rows))
                known = rows, self.positive, total
                here = descend_primal(self.start, prototype, rounds, execution, shards, known)
            elif self.warm is not None:
                here = begin_warm_primal(self.warm, rounds, rows.n_columns)
            fapg = method.begin(ShardedPrimal(rounds, here, here), lipschitz, here, reads=1)
        else:
            # without its levels, which hold code: they are for the caller
            opening = OpenDual(rows, replace(prototype, levels=None), self.positive, n_groups)
            work = Beside(run, opening, self.scratch)
            rounds = Rounds(execution, shards, work, log)
            lipschitz, here, carried = begin_dual(prototype, rounds)
            outer = _outer(prototype, 0, carried)
            if self.start is not None:
                here, carried = visit_dual(self.start, outer, rounds, here, carried, len(shards))
            elif self.warm is not None:
                here, carried = begin_warm(self.warm, prototype, outer, rounds, here, carried)
            dual = ShardedDual(prototype, outer, rounds, here, here, carried)
            fapg, carried = method.begin(dual, lipschitz, here, reads=1), dual.carried
        return Standpoint(fapg, _value_of(self._model), rounds.log, carried, work)

    def advance(self, at: Standpoint, method: Fapg, execution: Execution) -> Standpoint:
        """At the next check."""
        if at.minimax is not None:
            return replace(at, fapg=method.advance(at.fapg, at.minimax))
        prototype = prototype_of(self._model, self.classes)
        state, level = method.levelled(at.fapg)
        assert at.work is not None, "shards hold the vectors"
        opening: Any = at.work.opened
        rounds = Rounds(execution, opening.rows.data.split("train"), at.work, at.log)
        if isinstance(prototype, SparseProblem):
            primal = ShardedPrimal(rounds, state.current, state.previous)
            return replace(at, fapg=method.run(state, primal, level), log=rounds.log)
        assert at.carried is not None, "a dual problem carries on"
        outer = _outer(prototype, level, at.carried)
        dual = ShardedDual(prototype, outer, rounds, state.current, state.previous, at.carried)
        fapg = method.run(state, dual, level)
        return replace(at, fapg=fapg, log=rounds.log, carried=dual.carried)

    def solution(self, at: Standpoint) -> tuple[FloatArray, Certificate]:
        """Weights of the columns (n_columns,), and the proof of the best point so far."""
        best, record = at.fapg.best, at.fapg.best_record
        if at.minimax is not None or at.carried is None:
            return (best.point if at.minimax is None else best.image).copy(), record.certificate
        prototype = prototype_of(self._model, self.classes)
        assert isinstance(prototype, DualProblem)
        outer = _outer(prototype, record.level, at.carried)
        return outer.slope(float(best.image @ best.image)) * best.image, record.certificate

    def at(self, value: float) -> OneClass:
        """The same with a parameter: the one that a run began with."""
        return replace(self, task=replace(self.task, value=value))

    def larger(self, at: Standpoint, over: bool) -> OneClass | None:
        """The problem to begin anew where nu was not given and has shown no weights; see `Task.larger`."""
        if self.task.name != NuSVM.NAME:
            return None
        has_weights, iterations = at.fapg.best_record.certificate.primal < 0.0, at.fapg.history[-1].iteration
        task = self.task.larger(at.value, self._highest, iterations, over, has_weights)
        return None if task is None else replace(self, task=task)

    def refuse_no_weights(self, certificate: Certificate) -> None:
        """Raise ConfigError where w = 0 turned out to be best, as it is for nu-SVM at nu_min and below."""
        if self.task.name != NuSVM.NAME or certificate.primal < 0.0:
            return
        model = self._model
        assert isinstance(model, NuSVM)
        high = nu_max(self.classes.signs, self.classes.totals) if model.fit_intercept else 1.0
        raise ConfigError(
            f"nu = {model.nu:g} is below the valid range for these rows, which ends at {high:.6g}: the best weights "
            f"are all 0, and the optimum with them. Take a nu between {model.nu:g} and {high:.6g}."
        )

    def _begin_minimax(self, rows: MappedRows, method: Fapg, execution: Execution) -> Standpoint:
        shards = rows.data.split("train")
        moments = sharded_moments(execution, rows, shards, self.positive, self.classes.weights)
        highest = fda_kappa_max(moments) if self.task.name == MMFDA.NAME else mpm_kappa_max(moments)
        model = self.task.model(highest)
        assert isinstance(model, MMFDA | MMMPM)
        problem = model.problem_of(moments)
        point = None
        if self.start is not None:
            weights = self.classes.weights
            point = minimax_start(self.start, problem, execution, rows, self.positive, weights)
        return Standpoint(method.start(problem, point), model.kappa, Log(), None, None, problem)

    @property
    def _of_moments(self) -> bool:
        return self.task.name in (MMFDA.NAME, MMMPM.NAME)

    @property
    def _model(self) -> Classifier:
        return self.task.model(self._highest)

    @property
    def _highest(self) -> float:
        known = self.classes.one_each, self.classes.totals
        return model_class(self.task.name).valid_range(*known, self.task.fit_intercept)[1]


def _value_of(model: Classifier) -> float:
    return float(getattr(model, model.PARAMETER))


def _outer(prototype: DualProblem, level: int, carried: Carried) -> Any:
    return outer_at(prototype, level, carried.first_length, carried.longest_first)
