"""Files name classes by tags, which stay the same when classes or attributes are moved or renamed."""

from __future__ import annotations

import ast
import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from safetensors.numpy import load_file

import okl
from okl.data.dataset import Dataset
from okl.distributed import open_execution
from okl.features.fourier import draw_fourier_map
from okl.foundation import class_tags
from okl.foundation.class_tags import TAG, tag_of, tagged_classes
from okl.foundation.errors import CheckpointError
from okl.foundation.settings import settings_from
from okl.foundation.types import Task
from okl.kernels import Gaussian
from okl.lifecycle.champion import load_state
from okl.losses import Hinge
from okl.runs.checkpoint import (
    DecodedTree,
    EncodedTree,
    checkpoints_of,
    former_names,
    import_tagged_classes,
    write_checkpoint,
)
from okl.solvers.factory import make_solver, training_columns
from okl.solvers.online.step_size_experts import Candidates
from okl.solvers.settings import SOLVER_NAMES, TrainSettings

OLD_STATES = sorted((Path(__file__).parent / "former").iterdir())  # by an okl that named classes by module
REGRESSIONS = ("eps-svr", "ridge")
OPTIONS: dict[str, dict[str, Any]] = {
    "nogd": {"budget": 30},
    "scs": {"gap": 0.3, "lam": 0.05},
    "wolfe": {"gap": 0.3},
    "mm-fda": {"frequencies": 20},
    "mm-mpm": {"frequencies": 20},
    "falkon": {"n_landmarks": 50},
}


@pytest.fixture
def fresh_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the tags that a test declares."""
    for name in ("_classes", "_tags", "_renamed"):
        monkeypatch.setattr(class_tags, name, dict(getattr(class_tags, name)))


def declared_tags() -> Iterator[str]:
    """Return the tags in okl's source, imported or not."""
    for path in Path(okl.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "stored":
                assert isinstance(node.args[0], ast.Constant)
                yield str(node.args[0].value)
                former = [keyword.value for keyword in node.keywords if keyword.arg == "former"]
                yield from (tag for value in former for tag in ast.literal_eval(value))


def names_in(tree: Any) -> set[str]:
    """Return the classes that a stored value refers to."""
    if isinstance(tree, dict):
        own = {tree["is"]} if "is" in tree else set()
        return own.union(*map(names_in, tree.values()))
    return set().union(*map(names_in, tree)) if isinstance(tree, list) else set()


def test_each_tag_belongs_to_one_class_and_every_module_that_declares_tags_is_imported_for_files() -> None:
    counts = Counter(declared_tags())
    import_tagged_classes()
    assert {tag for tag, count in counts.items() if count > 1} == set()
    assert {tag for tag, kind in tagged_classes().items() if kind.__module__.startswith("okl.")} == set(counts)


def test_no_tag_names_a_module_or_a_class() -> None:
    import_tagged_classes()
    for tag, kind in tagged_classes().items():
        assert TAG.fullmatch(tag)
        assert tag not in (kind.__module__, kind.__qualname__, f"{kind.__module__}.{kind.__qualname__}")


def test_every_former_name_has_a_class_of_its_own() -> None:
    assert len(former_names()) == 166
    assert len(set(former_names().values())) == 166
    import_tagged_classes()
    assert set(former_names().values()) <= tagged_classes().keys()
    assert all(name.startswith("okl.") for name in former_names())


@pytest.mark.parametrize("folder", OLD_STATES, ids=lambda folder: folder.name)
def test_a_state_that_named_classes_by_their_modules_is_read_with_the_same_bits(folder: Path, tmp_path: Path) -> None:
    before = json.loads((folder / "state.json").read_text())
    assert json.loads((folder / "checkpoint.json").read_text())["format_version"] == 1
    assert all(name.startswith("okl.") for name in names_in(before))
    state, about = load_state(folder)
    assert about == {"model": folder.name}
    assert all(np.isfinite(array).all() for array in state.learner.predictor(state.learned).arrays().values())
    write_checkpoint(tmp_path, "learner", state, about, {}, None)
    (written,) = checkpoints_of(tmp_path, "learner")
    after, arrays = json.loads((written / "state.json").read_text()), load_file(written / "arrays.safetensors")
    # without packed layouts, which each process creates again
    assert names_in(after) <= {former_names()[name] for name in names_in(before)}
    assert not {name for name in names_in(after) if name.startswith("packed-")}
    assert json.loads((written / "checkpoint.json").read_text())["format_version"] == 2
    old, new = (
        Counter((a.dtype.str, a.shape, a.tobytes()) for a in values.values())
        for values in (load_file(folder / "arrays.safetensors"), arrays)
    )
    assert new <= old
    again, _ = load_state(folder)
    assert {name: a.tobytes() for name, a in again.learner.predictor(again.learned).arrays().items()} == {
        name: a.tobytes() for name, a in state.learner.predictor(state.learned).arrays().items()
    }


@pytest.mark.parametrize("solver", SOLVER_NAMES)
def test_the_state_of_every_solver_is_stored_by_tags(solver: str, learnable: dict[Task, Dataset]) -> None:
    task: Task = "regression" if solver in REGRESSIONS else "binary"
    values = {"data": str(learnable[task].folder), "solver": solver, "seed": 3} | OPTIONS.get(solver, {})
    settings = settings_from(TrainSettings, values, "test")
    data = training_columns(settings, learnable[task])
    with open_execution(threads=1) as execution:
        state = make_solver(settings, data).start(data, execution)
    encoded = EncodedTree(state, {"data": data})
    assert tag_of(type(state)) in names_in(encoded.tree) <= set(tagged_classes())
    again = EncodedTree(DecodedTree(encoded.tree, encoded.arrays, {"data": data}).value, {"data": data})
    assert json.dumps(again.tree) == json.dumps(encoded.tree)


def test_a_class_is_read_after_it_moved_and_took_another_name(fresh_tags: None) -> None:
    @class_tags.stored("state-of-a-test")
    @dataclass
    class Before:
        number: int

    tree = EncodedTree([Before(1), Before(2)], {}).tree
    assert names_in(tree) == {"state-of-a-test"}
    class_tags._classes.clear()  # as in the next version of okl

    @class_tags.stored("state-of-a-test")
    @dataclass
    class After:
        number: int

    assert DecodedTree(tree, {}, {}).value == [After(1), After(2)]


def test_files_of_a_class_that_another_one_replaced_are_read_as_that_one(fresh_tags: None) -> None:
    @class_tags.stored("replacement-of-a-test", former=("replaced-of-a-test",))
    @dataclass(frozen=True)
    class Replacement:
        number: int

    assert class_tags.class_of("replaced-of-a-test") is Replacement
    assert tag_of(Replacement) == "replacement-of-a-test"
    assert class_tags.class_of("subgradient-hinge") is Hinge
    with pytest.raises(ValueError, match="'online-state' belongs to"):
        class_tags.stored("further-of-a-test", former=("online-state",))(Counted)


def test_renamed_and_dropped_attributes_are_read_by_current_names(fresh_tags: None) -> None:
    @class_tags.stored("part-of-a-test")
    @dataclass(frozen=True)
    class Part:
        steps: int

        @cached_property
        def doubled(self) -> int:
            return 2 * self.steps

    @class_tags.stored("whole-of-a-test", renamed={"n": "n_rows", "gone": None})
    @dataclass(frozen=True)
    class Whole:
        n_rows: int
        part: Part

    @class_tags.stored("more-of-a-test", renamed={"extra": "bonus"})
    @dataclass(frozen=True)
    class More(Whole):
        bonus: int

    part = {"is": "part-of-a-test", "has": {"steps": 3, "doubled": 6}}
    # dropped instances count in the numbering that later references use
    tree = {"is": "more-of-a-test", "has": {"n": 7, "gone": part, "part": {"same": 1}, "extra": 9}}
    value = DecodedTree(tree, {}, {}).value
    assert value == More(7, Part(3), 9)
    assert set(vars(value)) == {"n_rows", "part", "bonus"}
    assert EncodedTree(value, {}).tree["has"].keys() == {"n_rows", "part", "bonus"}


class Pair(NamedTuple):
    """Two numbers."""

    left: int
    right: int


class Counted:
    """A class with one attribute."""

    number: int = 0


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "taken": (lambda: class_tags.stored("online-state")(Counted), r"'online-state' belongs to okl\..*State"),
    "module": (
        lambda: class_tags.stored("okl.solvers.online.State")(Counted),
        "'okl.solvers.online.State' is not in kebab case",
    ),
    "capitals": (lambda: class_tags.stored("Counted")(Counted), "'Counted' is not in kebab case"),
    "unknown attribute": (lambda: class_tags.stored("counted", {"n": "total"})(Counted), "renamed names 'total'"),
    "named tuple": (lambda: class_tags.stored("pair", {"first": "left"})(Pair), "stored by position"),
}


@pytest.mark.parametrize(("declare", "message"), WRONG.values(), ids=list(WRONG))
def test_a_tag_that_is_taken_or_malformed_is_refused_where_it_is_declared(
    declare: Callable[[], Any], message: str, fresh_tags: None
) -> None:
    import_tagged_classes()
    with pytest.raises(ValueError, match=message):
        declare()
    assert tag_of(Counted) is tag_of(Pair) is None


def test_a_module_that_is_imported_again_declares_its_tags_again(fresh_tags: None) -> None:
    first = class_tags.stored("counted")(Counted)
    again = class_tags.stored("counted")(type("Counted", (), {"__module__": __name__, "__qualname__": "Counted"}))
    assert class_tags.class_of("counted") is again is not first


def test_a_subclass_is_not_stored_by_the_tag_of_its_base(fresh_tags: None) -> None:
    class UntaggedSubclass(class_tags.stored("counted")(Counted)):  # type: ignore[misc]
        """A subclass without its own tag."""

    with pytest.raises(TypeError, match=r"UntaggedSubclass has no tag; declare one with okl\.found"):
        EncodedTree(UntaggedSubclass(), {})


@pytest.mark.parametrize(
    "name", ["no-such-tag", "okl.solvers.online.solver.NoState", "okl_extension_mine_0123456789ab.Model"]
)
def test_a_class_that_this_okl_does_not_know_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(CheckpointError, match=rf"^The state holds a '{name}', a class that this okl does not know\."):
        DecodedTree({"is": "online-state", "has": {"learner": {"is": name, "has": {}}}}, {}, {})


def test_layouts_packed_for_one_processor_are_neither_stored_nor_sent() -> None:
    """The layout of packed frequencies depends on the processor; another processor would read past the end."""
    drawn = draw_fourier_map(Gaussian(1.0), 3, 5, 0)
    candidates = Candidates((drawn,), 2)
    assert candidates.panels.shape[0] == len(drawn.waves.panels) == 1
    for value, name in ((drawn, "waves"), (candidates, "panels")):
        assert name in vars(value)
        encoded = EncodedTree(value, {})
        assert name not in encoded.tree["has"]
        assert name not in vars(DecodedTree(encoded.tree, encoded.arrays, {}).value)
        older = encoded.tree | {"has": encoded.tree["has"] | {name: 1.0}}
        assert name not in vars(DecodedTree(older, encoded.arrays, {}).value)
        assert name not in vars(pickle.loads(pickle.dumps(value)))
