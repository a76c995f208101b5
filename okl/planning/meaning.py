"""What settings mean for a data set: the columns that are learnt, the solver, its mode and rounds."""

from __future__ import annotations

from dataclasses import replace

from okl.accelerated.catalogue import is_model
from okl.configuration import TrainSettings
from okl.online.constraints.columns import check_columns, without_features
from okl.online.constraints.grammar import parse_constraints
from okl.online.constraints.quantities import columns_of
from okl.online.passes import SEGMENTS
from okl.online.recipe import Mode
from okl.online.solver import OnlineSolver, check_mode
from okl.recipes import Certified, make_accelerated, make_recipe, make_ridge, make_subgradient
from okl.store.dataset import Dataset
from okl.subgradient.catalogue import CUTTING_NAMES

MOST_ROUNDS, LEAST_ROUND_ROWS = 1024, 32  # a pass, where shards share weights in a map
MOST_JOINS, LEAST_JOIN_ROWS = 512, 64  # where support vectors are united and brought down to the budget again
CERTIFIED_SEGMENTS = 64  # a pass: regret is told at a sixteenth of the rows, an eighth, ...
WINDOWS = 100  # of rows in their own order
IN_MAPS = ("fogd", "nogd")  # whose state is a vector in a map that shards share


def learnt_columns(settings: TrainSettings, data: Dataset, named: str | None = None) -> Dataset:
    """The data set without the inputs that constraints look at, unless these are to be learnt from, too; rescaled.

    named : what errors call it, such as the source that it was made of; None: its folder

    Raises
    ------
    DataError : a constraint looks at a column that is not there; ConfigError : no input would be left
    """
    constraints, _ = parse_constraints(settings.constraints)
    check_columns(data.schema, constraints, named or str(data.folder))
    if settings.rescale != "stored":
        data = replace(data, schema=replace(data.schema, scale=settings.rescale))
    return data if settings.learn_sensitive else without_features(data, columns_of(constraints))


def make_solver(settings: TrainSettings, data: Dataset) -> OnlineSolver | Certified:
    """The solver that the settings mean for a data set."""
    if is_model(settings.solver):
        return make_accelerated(settings, data.schema)
    if settings.solver in CUTTING_NAMES:
        return make_subgradient(settings, data.schema)
    if settings.solver == "ridge":
        return make_ridge(settings, data.schema)
    return make_online_solver(settings, data)


def make_online_solver(settings: TrainSettings, data: Dataset) -> OnlineSolver:
    """The online learner that the settings mean for a data set."""
    schema = data.schema
    mode = mode_of(settings)
    recipe = make_recipe(settings, schema)
    check_mode(recipe, mode)
    asked, rows = settings.rounds, data.rows("train")
    rounds = default_rounds(settings.solver, mode, rows) if asked == "auto" else asked
    return OnlineSolver(
        recipe=recipe,
        passes=settings.passes,
        order=settings.order,
        seed=settings.seed,
        precision=settings.precision,
        mode=mode,
        rounds=rounds,
        segments=_segments(settings, mode),
    )


def _segments(settings: TrainSettings, mode: Mode) -> int:
    """Of a pass: as many as regret is told at, or as there are windows to look for a change in."""
    if mode == "stream" and settings.order == "stored" and settings.passes == 1:
        return WINDOWS
    return CERTIFIED_SEGMENTS if settings.certify else SEGMENTS


def mode_of(settings: TrainSettings) -> Mode:
    """The mode: as given; otherwise stream in one process, and with workers what was measured to learn sooner."""
    if settings.mode != "auto":
        return settings.mode
    if is_model(settings.solver) or settings.solver in (*CUTTING_NAMES, "ridge", "auto"):
        return "sum"
    if not (settings.workers or settings.scheduler or settings.cluster):
        return "stream"
    return "sum" if settings.solver in IN_MAPS and not settings.constraints else "mix"


def default_rounds(solver: str, mode: Mode, rows: int) -> int:
    """Rounds a pass: as many as were measured to learn well, but not for a handful of rows each."""
    if mode == "stream":
        return 1
    most, least_rows = (MOST_ROUNDS, LEAST_ROUND_ROWS) if solver in IN_MAPS else (MOST_JOINS, LEAST_JOIN_ROWS)
    return max(1, min(most, rows // least_rows))
