"""Checkpoints are complete or absent; damaged ones and those of another run are refused."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okl.data.dataset import Dataset
from okl.distributed import open_execution
from okl.foundation.errors import CheckpointError
from okl.foundation.locations import file_sha256
from okl.foundation.types import Task
from okl.foundation.validation import sealed
from okl.runs.checkpoint import (
    ARRAYS,
    HEAD,
    STATE,
    WORKER_FILES,
    DecodedTree,
    EncodedTree,
    Origin,
    Position,
    RunCheckpoints,
    check_same_origin,
    check_same_settings,
    checkpoints_of,
    read_head,
    read_value,
    restore_worker_files,
    write_checkpoint,
)
from okl.solvers.base import SolverProgress
from okl.solvers.settings import TrainSettings
from okl.solvers.subgradient.spaces import Vector
from tests.benchmarks.fuzz_bytes import damaged


def same(left: Any, right: Any) -> bool:
    """Return whether two values have the same types and bits."""
    first, second = EncodedTree(left, {}), EncodedTree(right, {})
    arrays = [{name: (a.dtype, a.shape, a.tobytes()) for name, a in one.arrays.items()} for one in (first, second)]
    return json.dumps(first.tree) == json.dumps(second.tree) and arrays[0] == arrays[1]


def example() -> Position:
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(3, 4)).astype(np.float32)
    state = {
        "numbers": (
            1,
            2.0,
            -0.0,
            0.1 + 0.2,
            float("inf"),
            float("nan"),
            True,
            None,
            2**80,
            np.float32(0.1),
            np.int64(3),
        ),
        ("a", 1): [slice(1, None), Path("/x"), "ä", np.zeros((0, 3)), np.array(5.0), np.arange(6).reshape(2, 3).T],
        "vector": Vector(shared, shared),
        "standing": SolverProgress(1, 2, 0.5, 0.25),
        "kinds": [np.ones(3, dtype=kind) for kind in (bool, np.uint8, np.int32, np.float16, np.float64)],
    }
    return Position(state)


def test_a_decoded_tree_has_the_same_bits_types_and_shared_arrays() -> None:
    encoded = EncodedTree(example(), {})
    again = DecodedTree(json.loads(json.dumps(encoded.tree)), encoded.arrays, {}).value
    assert same(again, example())
    assert [type(one) for one in again.state["numbers"]] == [type(one) for one in example().state["numbers"]]
    assert again.state["vector"].dual is again.state["vector"].coefficients
    assert again.state[("a", 1)][-1].flags.f_contiguous
    assert all(array.flags.writeable for array in again.state["kinds"])


@dataclass
class UntaggedClass:
    """A class without a tag."""


def test_unknown_classes_are_neither_stored_nor_created() -> None:
    with pytest.raises(TypeError, match=r"test_checkpoint\.UntaggedClass has no tag"):
        EncodedTree(UntaggedClass(), {})
    for name in (
        "os.system",
        "okl.solvers.online.solver.OnlineState.start",
        "okl.foundation.errors.OklError",
        "no-such-tag",
    ):
        with pytest.raises(CheckpointError, match=rf"holds a '{name}', a class that this okl does not know\. Load"):
            DecodedTree({"is": name, "has": {}}, {}, {})
    broken: tuple[dict[str, Any], ...] = (
        {"is": ["a"]},
        {"array": "7"},
        {"same": 3},
        {"shared": "data"},
        {"run": "code"},
        {},
        {"is": "coefficient-vector", "has": 1},
    )
    for tree in broken:
        with pytest.raises(CheckpointError, match="refers to something that is missing"):
            DecodedTree(tree, {}, {})


def written(run: Path) -> Path:
    """Write a checkpoint with a worker file, after an older checkpoint."""
    scratch = run / "scratch"
    scratch.mkdir()
    np.save(scratch / "shard.npy", np.arange(9.0))
    for _ in range(2):
        write_checkpoint(run, "model", example(), {"key": "k"}, {}, scratch)
    (found,) = checkpoints_of(run, "model")
    return found


def test_the_last_checkpoint_stays_until_the_next_one_is_complete(tmp_path: Path) -> None:
    before = written(tmp_path)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    large = Position(np.zeros(100_000))
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limit[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_checkpoint(tmp_path, "model", large, {}, {}, None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert list((tmp_path / "checkpoint").iterdir()) == [before]
    assert same(read_value(read_head(before), {}), example())
    write_checkpoint(tmp_path, "model", large, {}, {}, None)
    (after,) = (tmp_path / "checkpoint").iterdir()
    assert after.name > before.name
    assert same(read_value(read_head(after), {}), large)


def test_worker_files_are_restored_once(tmp_path: Path) -> None:
    head = read_head(written(tmp_path))
    (tmp_path / "new").mkdir()
    for _ in range(2):  # the loop of the model and that of the linear baseline
        restore_worker_files(head, tmp_path / "new")
    assert np.array_equal(np.load(tmp_path / "new" / "shard.npy"), np.arange(9.0))


def torn(name: str) -> Callable[[Path], None]:
    def tear(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: len(content) // 2])

    return tear


def changed(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = bytearray((folder / name).read_bytes())
        content[-20] ^= 1
        (folder / name).write_bytes(content)

    return change


def newer(folder: Path) -> None:
    (folder / HEAD).write_text(json.dumps(json.loads((folder / HEAD).read_text()) | {"format_version": 99}))


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    f"{how.__name__} {name}": (how(name), f"{name} is damaged: it")
    for how in (torn, changed)
    for name in (HEAD, STATE, ARRAYS)
}
DAMAGE |= {
    "missing": (lambda folder: (folder / STATE).unlink(), "state.json is damaged: it cannot be read"),
    "worker file torn": (
        torn(f"{WORKER_FILES}/shard.npy"),
        r"shard\.npy is damaged: its bytes do not have the sha256",
    ),
    "newer": (newer, r"has format 99, but this version of okl reads formats up to 2\. Resume with the version of okl"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=list(DAMAGE))
def test_a_torn_checkpoint_is_refused(damage: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    folder = written(tmp_path)
    damage(folder)
    with pytest.raises(CheckpointError, match=message):
        read_value(read_head(folder), {})


def test_a_checkpoint_with_damaged_bytes_is_refused_or_has_the_same_value(tmp_path: Path) -> None:
    folder = written(tmp_path)
    names = (HEAD, STATE, ARRAYS, f"{WORKER_FILES}/shard.npy")
    rng, whole = np.random.default_rng(0), {name: (folder / name).read_bytes() for name in names}
    sentences = list[str]()
    for case in range(200):
        name = names[case % len(names)]
        (folder / name).write_bytes(damaged(whole[name], rng))
        try:
            assert same(read_value(read_head(folder), {}), example())
            assert (folder / name).read_bytes() == whole[name]
        except CheckpointError as error:
            sentences.append(str(error))
        (folder / name).write_bytes(whole[name])
    assert len(sentences) > 190
    assert all(one.count(". ") == 1 for one in sentences), sentences


def signed(folder: Path, **changes: Any) -> None:
    """Change the head and update its digests."""
    (folder / HEAD).write_bytes(sealed(json.loads((folder / HEAD).read_text()) | changes))


def test_a_signed_checkpoint_names_its_own_files_and_is_not_nested_too_deeply(tmp_path: Path) -> None:
    folder = written(tmp_path)
    files = read_head(folder).files
    for changes in ({"sizes": {"../../x.npy": 1}}, {"files": files | {"../x": "0"}}, {"files": {STATE: files[STATE]}}):
        before = (folder / HEAD).read_bytes()
        signed(folder, **changes)
        with pytest.raises(CheckpointError, match="names other files than those of a checkpoint"):
            read_head(folder)
        (folder / HEAD).write_bytes(before)
    (folder / STATE).write_bytes(b"[" * 100_000)
    signed(folder, files=files | {STATE: file_sha256(folder / STATE)})
    with pytest.raises(CheckpointError, match="nested too deeply"):
        read_value(read_head(folder), {})


def test_a_checkpoint_of_other_data_settings_or_code_is_refused(learnable: dict[Task, Dataset]) -> None:
    data = learnable["binary"]
    settings = TrainSettings(data=str(data.folder), frequencies=20)
    origin = Origin.of(settings, data)
    stored = Origin(**json.loads(json.dumps(asdict(origin))))
    check_same_origin(stored, origin, data.folder, "run")
    for elsewhere in ({"threads": 1}, {"checkpoint_seconds": 5.0}, {"workers": 2}, {"workers": 2, "mode": "stream"}):
        check_same_settings(stored, settings.model_copy(update=elsewhere), "run")
    for name, value in {"frequencies": 30, "seed": 1, "mode": "sum", "passes": 2}.items():
        with pytest.raises(CheckpointError, match=rf"^run was started with {name} = .* Remove it to resume"):
            check_same_settings(stored, settings.replaced(**{name: value}), "run")
    other = Origin.of(settings, learnable["multiclass"])
    with pytest.raises(CheckpointError, match=f"sha256 {data.sha256[:12]}, but .*/binary has {other.data_sha256[:12]}"):
        check_same_origin(origin, other, data.folder, "run")
    for code in ({"source_sha256": "0" * 64}, {"versions": origin.versions | {"numpy": "1.0"}}):
        with pytest.raises(
            CheckpointError, match=r"was started with (code|numpy) .*the resumed model could differ\. Use"
        ):
            check_same_origin(origin, replace(origin, **code), data.folder, "run")


def test_a_run_continues_if_a_checkpoint_cannot_be_written(
    learnable: dict[Task, Dataset], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    origin = Origin.of(TrainSettings(data="nowhere"), learnable["binary"])
    checkpoints = RunCheckpoints(tmp_path / "gone", origin, 0.0, 1, {})
    with open_execution(threads=1) as execution:
        checkpoints.of("model").offer(Position(0), execution)
    assert "Could not write a checkpoint" in caplog.text
