"""Settings of the online solvers: FOGD, NOGD and the learners with support vectors."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from okl.data.dataset import Schema
from okl.data.execution import Rows
from okl.features.fourier import DRAWS
from okl.features.landmarks import MOST_ROWS
from okl.foundation.errors import ConfigError
from okl.foundation.settings import Count, InRange, Positive
from okl.foundation.types import Mode
from okl.losses import DEFAULT_LOSS, Loss, ScalarLoss, make_loss, online_losses
from okl.solvers.base import SolverMap
from okl.solvers.online.base import SEGMENTS, BuildContext, LearnerFactory, check_loss
from okl.solvers.online.budget import BudgetStrategy, Strategy
from okl.solvers.online.constrained import ConstrainedFactory
from okl.solvers.online.constraints import Constraint, parse_constraints
from okl.solvers.online.linear import LinearFactory, check_ball
from okl.solvers.online.maps import (
    ExtensionChoice,
    FourierChoice,
    InputsChoice,
    LinearChoice,
    NystromChoice,
    SparseChoice,
)
from okl.solvers.online.nystrom import NOGDFactory
from okl.solvers.online.solver import SAMPLE_ROWS, OnlineSolver, check_mode
from okl.solvers.online.step_size_experts import ExpertFactory
from okl.solvers.online.strategies import BudgetFactory
from okl.solvers.online.tracking import TrackingFactory
from okl.solvers.options import (
    Choices,
    ClassWeightOptions,
    FourierOptions,
    KernelOptions,
    LossOptions,
    MemoryModel,
    PolynomialOptions,
    Run,
    SolverSettings,
    number_of,
)

MOST_ROUNDS, LEAST_ROUND_ROWS = 1024, 32  # a pass, where shards average weights in a feature map
MOST_JOINS, LEAST_JOIN_ROWS = 512, 64  # a pass, where support vectors are united and reduced to the budget
LEAST_SPARSE_ROUNDS = 64  # a pass
CERTIFIED_SEGMENTS = 64  # a pass: regret is computed at a sixteenth of the rows, an eighth, ...
RADIUS = 10.0  # of constrained weights, unless given: constraints require bounded ones
WINDOWS = 100  # a pass in stored order: windows of the drift report


def map_of(options: FourierOptions) -> SolverMap:
    """Return the map that the options mean: of a linear kernel the inputs themselves."""
    return InputsChoice() if options.kernel == "linear" else random_map(options)


def random_map(options: FourierOptions) -> SolverMap:
    """Return the map of random frequencies, or of an extension, that the options name, whatever the kernel is."""
    shape = options.kernel, number_of(options.bandwidth), options.frequencies
    if options.map in (*DRAWS, "auto", "exact"):  # exact has been refused, or is no map
        return FourierChoice(*shape, options.map)
    if options.map == "nystrom":
        columns = 2 * options.frequencies
        polynomial = (options.degree, options.offset) if isinstance(options, PolynomialOptions) else ()
        return NystromChoice(*shape[:2], columns, columns, "uniform", *polynomial, fewer=True)
    return ExtensionChoice(options.map, *shape)


NOT_SMOOTHED = ("absolute", "epsilon-insensitive")  # losses of scs and wolfe only


class OnlineSettings(KernelOptions, LossOptions):
    """Options of every online solver. COMPARED : whether `okl compare` takes it"""

    COMPARED: ClassVar[bool] = True
    ROUNDS: ClassVar[tuple[int, int]] = (MOST_JOINS, LEAST_JOIN_ROWS)  # most a pass, and the least rows of each

    passes: int = Field(1, ge=1, description="passes over the training rows")
    rounds: Count | Literal["auto"] = Field("auto", description="rounds per pass (modes mix and sum)")
    order: Literal["shuffle", "stored"] = Field("shuffle", description="order of the rows in each pass")

    def check(self, run: Run) -> None:
        """Refuse rounds in a stream."""
        super().check(run)
        if self.rounds != "auto" and run.training_mode == "stream":
            raise ConfigError(
                "rounds applies to the modes mix and sum, but the mode is stream. Set --mode mix or --mode sum."
            )

    def mode(self, run: Run) -> Mode:
        """Return stream in one process, and mix with workers."""
        return "mix" if run.has_workers else "stream"

    def factory(self, schema: Schema) -> LearnerFactory:
        """Return the learner that the options mean; ConfigError if they do not fit."""
        raise NotImplementedError

    def build(self, run: Run, schema: Schema, rows: int | None) -> OnlineSolver:
        self.check_epsilon(schema)
        mode, factory = run.training_mode, self.factory(schema)
        check_mode(factory, mode)
        return OnlineSolver(
            factory=factory,
            passes=self.passes,
            order=self.order,
            seed=run.seed,
            precision=run.precision,
            mode=mode,
            rounds=self._rounds_of(mode, rows or 1, schema) if self.rounds == "auto" else self.rounds,
            segments=self._segments(mode),
        )

    def linear_baseline(self, schema: Schema) -> LearnerFactory:
        """Return a linear model of standardised inputs, learned the same way: what a kernel must beat."""
        return LinearFactory(LinearChoice(), name="linear", **self.learning(schema))

    def learning(self, schema: Schema) -> dict[str, Any]:
        """Return how weights in a feature map are learned, as options of LinearFactory."""
        return {"loss": self.loss_of(schema), "class_weights": None, "average": True, "adaptive": True}

    def loss_of(self, schema: Schema) -> Loss:
        """Return the loss that the options mean for a data set, or ConfigError."""
        loss = make_loss(DEFAULT_LOSS[schema.task] if self.loss == "auto" else self.loss, self.epsilon)
        check_loss(loss, schema)
        return loss

    @property
    def n_passes(self) -> int:
        return self.passes

    def _rounds_of(self, mode: Mode, rows: int, schema: Schema) -> int:
        """Return the rounds a pass; of sparse rows few, as a round takes in all columns and a row only its values."""
        most, least_rows = self.ROUNDS
        rounds = 1 if mode == "stream" else max(1, min(most, rows // least_rows))
        if schema.sparse is None or self.n_columns(schema.n_features) < schema.n_features:
            return rounds
        return min(rounds, max(LEAST_SPARSE_ROUNDS, LEAST_SPARSE_ROUNDS * rows // schema.n_features))

    def _segments(self, mode: Mode) -> int:
        """Return the segments of a pass: the points where regret is computed, or the windows of the drift report."""
        if mode == "stream" and self.order == "stored" and self.passes == 1:
            return WINDOWS
        return CERTIFIED_SEGMENTS if self.certifies else SEGMENTS


def constraints_of(options: SolverSettings) -> tuple[str, ...]:
    """Return the constraints of a solver's options; empty for a solver without."""
    return options.constraints if isinstance(options, MapLearningOptions) else ()


def tracks(options: SolverSettings) -> bool:
    """Return whether a solver's options follow data that change."""
    return isinstance(options, MapLearningOptions) and options.track


def check_factory(factory: LearnerFactory, schema: Schema, rows: int | None) -> None:
    """Raise ConfigError as a factory would for any data of this number of rows (None: unknown), before one is read."""
    maps = factory.maps if isinstance(factory, LinearFactory | ConstrainedFactory | TrackingFactory) else None
    if isinstance(maps, NystromChoice) and rows is not None:
        n_sampled = min(rows, SAMPLE_ROWS, MOST_ROWS.get(maps.landmarks, rows))
        if maps.n_landmarks > n_sampled:
            supports = schema.sparse is None and isinstance(factory, LinearFactory)
            other = ", or landmarks = 'supports'" if supports else ""
            raise ConfigError(
                f"budget = {maps.n_landmarks:,}, but landmarks = {maps.landmarks!r} are chosen from {n_sampled:,} "
                f"sampled rows. Set a budget of at most {n_sampled:,}{other}."
            )
    if isinstance(factory, BudgetFactory):
        factory = replace(factory, race=False)
    elif isinstance(factory, NOGDFactory):
        factory = replace(factory, step_size=factory.step_size or 1.0)
    else:
        return
    made_up = Rows(np.eye(2, schema.n_features, dtype=np.float32), np.zeros(2))
    factory.build(BuildContext(schema, made_up, rows, 1, "stream", 0, "float32"))


class StepOptions(SolverSettings):
    """Step size."""

    step_size: Positive | Literal["auto"] = Field(
        "auto", description="step size for feature maps with rows of norm 1; auto: chosen on a sample or by experts"
    )


class BudgetOptions(SolverSettings):
    """Budget of support vectors or landmarks."""

    budget: int = Field(100, ge=1, description="maximum number of support vectors or landmarks")


# FOGD and NOGD: weights in a feature map

_TRUE = ("true", "1", "yes", "on")
OF_COLUMNS = ("constraint_margin", "constraint_gain", "constraint_method", "learn_sensitive")


class MapLearningOptions(OnlineSettings, StepOptions, ClassWeightOptions):
    """Options of online gradient descent in a feature map."""

    ROUNDS: ClassVar[tuple[int, int]] = (MOST_ROUNDS, LEAST_ROUND_ROWS)

    average: bool = Field(
        True,
        description="predict with an average of the weights, in which later ones count more, not with the last ones",
    )
    step_rule: Literal["adagrad", "plain", "sqrt"] = Field(
        "adagrad",
        description="step rule of mode sum; sqrt: step_size / sqrt(t), which needs a radius; a radius with automatic "
        "step size also uses sqrt, except in a regression",
    )
    radius: InRange | None = Field(
        None,
        description="radius of the ball that the weights are projected onto; with --track: radius of the models in the "
        "certificate",
    )
    constraints: tuple[str, ...] = Field(
        (),
        description="constraint on the scores, such as 'abs(covariance(COLUMN)) <= 0.01', "
        "'abs(difference(COLUMN=1, COLUMN=0)) <= 0.05' or 'mean(COLUMN=1) >= -0.2'; 'norm <= 10' is a radius",
    )
    constraint_margin: float = Field(
        0.0,
        ge=0,
        allow_inf_nan=False,
        description="safety margin: constraints are enforced with limits tightened by this",
    )
    constraint_gain: Positive | Literal["auto"] = Field(
        "auto",
        description="growth rate gamma_0 of the multipliers of violated constraints; auto: the largest value that the "
        "theorems allow; larger values have no proven bound",
    )
    constraint_method: Literal["algorithm1", "recoo"] = Field(
        "algorithm1",
        description="multipliers of violated constraints; algorithm1: of Yi et al.; recoo: at least a growing floor, "
        "which violates fixed constraints less",
    )
    learn_sensitive: bool = Field(False, description="also use the columns of the constraints as inputs")
    certify: bool = Field(
        False,
        description="compute a certificate: regret against the best fixed weights in the ball; with --track also "
        "against weights that change 1, 2, 4, ... times",
    )
    track: bool = Field(
        False,
        description="follow data that change over time: combine several step sizes, by Fixed Share, or by Algorithm 2 "
        "of Yi et al. under constraints; the order of rows is then stored by default",
    )

    @model_validator(mode="before")
    @classmethod
    def _track_as_stored(cls, values: Any) -> Any:
        """Use the stored order by default with track."""
        if isinstance(values, dict) and str(values.get("track")).lower() in _TRUE and "order" not in values:
            return values | {"order": "stored"}
        return values

    def check(self, run: Run) -> None:
        """Raise ConfigError for a bad grammar, constraints without a ball, or options without effect."""
        constraints = self.parsed_constraints
        for name in OF_COLUMNS:
            if self.changed(name) and not constraints:
                raise ConfigError(f"{self.described(name)}, but no constraint uses a column. Remove it.")
        super().check(run)
        if self.step_rule == "sqrt" and self.ball_radius is None:
            raise ConfigError(
                "step_rule = 'sqrt' is set, but steps decay only with a bound on the weights. Remove it, or set a "
                "radius."
            )
        if self.step_rule == "plain" and (mode := run.training_mode) != "sum":
            raise ConfigError(
                f"step_rule = 'plain' applies to the mode sum, but the mode is {mode}. Remove it, or set --mode sum."
            )
        if self.certify:
            self._check_certify(run)
        if self.track:
            self.check_track()

    def check_track(self) -> None:
        """Refuse options that tracking sets itself."""
        for name in ("step_size", "average", "step_rule"):
            if self.changed(name):
                raise ConfigError(
                    f"{self.described(name)}, but track chooses step sizes and averages itself. Remove {name} or track."
                )
        if not self.parsed_constraints and (self.radius is None) == self.certify:
            given, missing = ("certify", "radius") if self.certify else ("radius", "certify")
            raise ConfigError(
                f"{self.described(given)} with track, but the certificate of tracking requires both certify and "
                f"radius. Set {missing} too, or remove {given}."
            )

    def _check_dense(self, *options: str) -> None:
        """Refuse options that are for dense rows only."""
        for name in options:
            if self.changed(name):
                raise ConfigError(
                    f"{self.described(name)}, but rows are sparse, which {self.SOLVER} takes without. Remove it."
                )

    @property
    def parsed_constraints(self) -> tuple[Constraint, ...]:
        """Return the constraints that use a column; ConfigError for bad grammar."""
        return parse_constraints(self.constraints)[0]

    @property
    def ball_radius(self) -> float | None:
        """Return the radius of the ball that weights stay in, RADIUS for constraints without one; None: no ball."""
        constraints, bound = parse_constraints(self.constraints)
        return min(
            (radius for radius in (self.radius, bound) if radius is not None), default=RADIUS if constraints else None
        )

    @property
    def certifies(self) -> bool:
        return self.certify

    @property
    def standardises(self) -> bool:
        """Return False for tracking, where the scale of rows to come is unknown."""
        return not self.track

    def _check_certify(self, run: Run) -> None:
        """Refuse a certificate in another mode than stream or in several passes."""
        if (mode := run.training_mode) != "stream":
            raise ConfigError(
                f"certify conflicts with mode {mode}: regret is defined for rows that are trained on in order. Set "
                "--mode stream, or remove certify."
            )
        if self.passes != 1:
            raise ConfigError(
                f"certify conflicts with passes = {self.passes}: regret is defined for a single pass. Remove one of "
                "them."
            )

    def mode(self, run: Run) -> Mode:
        """Return stream in one process, and with workers sum, or mix under constraints."""
        mode = super().mode(run)
        return "sum" if mode == "mix" and not self.constraints else mode

    def learning(self, schema: Schema) -> dict[str, Any]:
        return {
            "loss": self.loss_of(schema),
            "class_weights": self.weights_of_classes(schema),
            "average": self.average,
            "adaptive": self.step_rule == "adagrad",
        }

    def map_factory(self, maps: SolverMap, schema: Schema, **more: Any) -> LearnerFactory:
        """Return the learner in a map, a tracker or within the constraints; more : such as its name."""
        learning, radius, decaying = self.learning(schema), self.ball_radius, self.step_rule == "sqrt"
        if self.track:
            self.check_track()
        if self.track and self.parsed_constraints:
            check_ball(radius, True, learning["loss"])
            return self.constrained_factory(maps, schema, average=False, decaying=True, track=True, name="track")
        if self.track:
            if isinstance(loss := learning["loss"], ScalarLoss):
                able = ", ".join(name for name in online_losses() if not isinstance(make_loss(name), ScalarLoss))
                raise ConfigError(f"loss = {loss.name!r} with track, which supports {able} only. Remove one of them.")
            check_ball(self.radius, False, loss, two_classes=True)
            return TrackingFactory(maps, loss, learning["class_weights"], self.radius)
        check_ball(radius, decaying, learning["loss"])
        more |= {"step_size": number_of(self.step_size), "decaying": decaying}
        if self.parsed_constraints:
            return self.constrained_factory(maps, schema, **more)
        return LinearFactory(maps, radius=radius, **learning | more)

    def constrained_factory(self, maps: SolverMap, schema: Schema, **more: Any) -> ConstrainedFactory:
        """Return the learner within the constraints in a map; more : of its step sizes and its name."""
        learning, radius = self.learning(schema), self.ball_radius
        assert radius is not None, "options were checked"
        del learning["adaptive"]
        return ConstrainedFactory(
            maps,
            constraints=self.parsed_constraints,
            radius=radius,
            margin=self.constraint_margin,
            gain=number_of(self.constraint_gain),
            rectified=self.constraint_method == "recoo",
            **learning | more,
        )

    def linear_baseline(self, schema: Schema) -> LearnerFactory:
        """Return a linear model of standardised inputs, learned the same way, within the same limits."""
        if not self.parsed_constraints:
            return super().linear_baseline(schema)
        # rows are longer than those of a map: the step of the radius would be too long
        return self.constrained_factory(LinearChoice(), schema, name="linear", race=True)


class FogdSettings(MapLearningOptions, FourierOptions):
    """Fourier online gradient descent, with experts, tracking, constraints and a certificate of regret.

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 1, 3 and 5.
    """

    SOLVER: ClassVar[str] = "fogd"
    SUMMARY: ClassVar[str] = "online gradient descent on random Fourier features"
    REFUSED_MAPS: ClassVar[dict[str, str]] = FourierOptions.REFUSED_MAPS | {"nystrom": "nogd"}
    NOT_TAKEN: ClassVar[Choices] = {
        "loss": NOT_SMOOTHED, "map": ("nystrom", "exact"), "kernel": ("polynomial", "linear"),
    }  # fmt: skip

    bandwidth: Positive | Literal["auto"] = Field(
        "auto",
        description="kernel bandwidth in units of the scaled inputs; auto: chosen by experts during training, or the "
        "median distance if other options exclude experts",
    )

    @property
    def standardises(self) -> bool:
        """Return False for experts, which include standardised inputs."""
        experts = self.bandwidth == self.step_size == "auto" and self.average and self.map == "independent"
        return super().standardises and not (experts and self.ball_radius is None)

    def factory(self, schema: Schema, experts: bool = True) -> LearnerFactory:
        """Return the learner: experts, a tracker, a constrained or a plain one. experts : whether they may be used"""
        if schema.sparse is not None:
            linear = self.kernel == "linear"
            self._check_dense("constraints", "track", *(("radius", "certify", "map", "frequencies") if linear else ()))
            return self.map_factory(SparseChoice() if linear else random_map(self), schema)
        maps, learning = random_map(self), self.learning(schema)
        # experts predict by last or averaged weights, as one or the other leads: without averages there are no experts
        free = experts and self.bandwidth == self.step_size == "auto" and self.average and self.ball_radius is None
        # and they weigh the losses of the table of compiled code
        if free and not self.track and self.map == "independent" and not isinstance(learning["loss"], ScalarLoss):
            return ExpertFactory(kernel=self.kernel, n_frequencies=self.frequencies, **learning)
        return self.map_factory(maps, schema)


RANK_SHARE = 0.3  # of the budget; Lu et al., section 7.3.3 advise .2 to .4


class NogdSettings(MapLearningOptions, PolynomialOptions, BudgetOptions):
    """Nystrom online gradient descent, with tracking, constraints and a certificate of regret.

    Constraints and tracking need the map before the first row: all rows and step sizes share it.

    Source: Lu et al., JMLR 17(47), 2016, Algorithms 2, 4 and 6.
    """

    SOLVER: ClassVar[str] = "nogd"
    SUMMARY: ClassVar[str] = "online gradient descent on a Nystrom map of landmarks"
    NOT_TAKEN: ClassVar[Choices] = {"loss": NOT_SMOOTHED}
    MEMORY: ClassVar[MemoryModel] = MemoryModel("pass", "budget")

    rank: Count | Literal["auto"] = Field("auto", description="columns of the Nystrom map; auto: 0.3 of the budget")
    landmarks: Literal["supports", "uniform", "kmeans", "rpcholesky"] = Field(
        "supports",
        description="choice of landmarks; supports: the first support vectors, of sparse rows, under constraints "
        "and with --track uniform; uniform, kmeans, rpcholesky: from a sample before training",
    )

    def check(self, run: Run) -> None:
        """Refuse a rank above the budget."""
        super().check(run)
        if self.rank != "auto" and self.rank > self.budget:
            raise ConfigError(
                f"rank = {self.rank:,}, but a budget of {self.budget:,} landmarks allows at most "
                f"that rank. Set the rank to at most {self.budget:,}, or raise the budget."
            )

    @property
    def map_rank(self) -> int:
        """Return the largest number of columns of the map."""
        return max(1, round(RANK_SHARE * self.budget)) if self.rank == "auto" else self.rank

    def factory(self, schema: Schema) -> LearnerFactory:
        rank = self.map_rank
        kernel: dict[str, Any] = {
            "kernel": self.kernel,
            "bandwidth": number_of(self.bandwidth),
            "degree": self.degree,
            "offset": self.offset,
        }
        if schema.sparse is not None:
            self._check_dense("constraints", "track")
        if self.landmarks == "supports" and schema.sparse is None and not (self.track or self.parsed_constraints):
            decaying, learning = self.step_rule == "sqrt", self.learning(schema)
            check_ball(self.ball_radius, decaying, learning["loss"])
            return NOGDFactory(
                budget=self.budget,
                rank=rank,
                radius=self.ball_radius,
                step_size=number_of(self.step_size),
                decaying=decaying,
                **kernel | learning,
            )
        landmarks = "uniform" if self.landmarks == "supports" else self.landmarks
        maps = NystromChoice(n_landmarks=self.budget, rank=rank, landmarks=landmarks, **kernel)
        return self.map_factory(maps, schema, name="nogd")

    def n_columns(self, n_inputs: int) -> int:
        return self.budget if self.rank == "auto" else self.rank

    def part_bytes(self, n_inputs: int, n_outputs: int, rows: int, item: int) -> float:
        return super().part_bytes(n_inputs, n_outputs, rows, item) + self.budget * n_inputs * item


# Strategies: learners with support vectors


class RegularisationOptions(SolverSettings):
    """Weight of the squared norm."""

    regularisation: Positive | Literal["auto"] = Field(
        "auto", description="weight of the squared norm; auto: the solver's default"
    )


class AggressivenessOptions(SolverSettings):
    """Bound of a coefficient."""

    aggressiveness: Positive | Literal["auto"] = Field(
        "auto", description="largest coefficient of a row; auto: the solver's default"
    )


class StrategySettings(OnlineSettings, PolynomialOptions):
    """Options of a learner with support vectors."""

    STRATEGY: ClassVar[type[Strategy]]
    NOT_TAKEN: ClassVar[Choices] = {"loss": ("logistic", *NOT_SMOOTHED)}

    def check(self, run: Run) -> None:
        """Refuse another loss than that of the task by default."""
        super().check(run)
        if self.loss not in ("auto", *DEFAULT_LOSS.values()):
            raise ConfigError(
                f"loss = {self.loss!r}, but {self.SOLVER} uses the hinge loss. Remove it, or use fogd or nogd."
            )

    def factory(self, schema: Schema) -> BudgetFactory:
        own = _options_of(self.STRATEGY)
        given = {name: value for name in own if (value := number_of(getattr(self, name))) is not None}
        size_free = self.STRATEGY.size_free and schema.task != "regression"
        return BudgetFactory(
            self.STRATEGY(**given),
            self.loss_of(schema),
            self.kernel,
            number_of(self.bandwidth),
            getattr(self, "budget", 100),
            race="step_size" in own and "step_size" not in given and not size_free,
            degree=self.degree,
            offset=self.offset,
        )

    def part_bytes(self, n_inputs: int, n_outputs: int, rows: int, item: int) -> float:
        return float(getattr(self, "budget", rows) * (n_inputs + n_outputs + 2) * item)


_OF_STRATEGIES: dict[str, type[SolverSettings]] = {
    "step_size": StepOptions,
    "regularisation": RegularisationOptions,
    "aggressiveness": AggressivenessOptions,
}


def _options_of(strategy: type[Strategy]) -> list[str]:
    names = {field.name for field in fields(strategy)}
    return [name for name in _OF_STRATEGIES if name in names]


def strategy_settings(strategy: type[Strategy]) -> type[StrategySettings]:
    """Return the settings of a strategy: those of its fields that are options, and a budget if it has one."""
    budgeted = issubclass(strategy, BudgetStrategy)
    mixins: list[type] = [
        *(_OF_STRATEGIES[name] for name in _options_of(strategy)),
        *([BudgetOptions] if budgeted else []),
    ]
    own = {
        "SOLVER": strategy.name,
        "SUMMARY": summary_of(strategy),
        "STRATEGY": strategy,
        "MEMORY": MemoryModel("pass", "budget" if budgeted else "supports"),
        "__module__": __name__,
        "__doc__": strategy.__doc__,
    }
    return type(f"{strategy.__name__}Settings", (StrategySettings, *mixins), own)


def summary_of(thing: type) -> str:
    """Return the first line of a docstring, for the help."""
    return (thing.__doc__ or "").partition("\n")[0].rstrip(".")
