"""Checkpoints: state as JSON and arrays, written periodically and restored bit for bit."""

from __future__ import annotations

import hashlib
import json
import math
import os
import pkgutil
import platform
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load_file
from scipy import sparse

from okl.data.dataset import Dataset
from okl.data.execution import Execution, Traffic
from okl.data.manifest import RECORDED, processor, version_of
from okl.foundation import plugins
from okl.foundation.class_tags import class_of, lasting_attributes, save_arrays, stored, tag_of, with_todays_names
from okl.foundation.errors import CheckpointError, OklError
from okl.foundation.folders import (
    CHECKPOINT,
    DIGITS,
    UNFINISHED_RUN,
    checkpoints_in,
    is_leftover,
    local_folder,
    resumable,
    resumable_in,
    sync,
)
from okl.foundation.folders import name_of as folders_name_of
from okl.foundation.locations import DATED, file_sha256, okl_home, place_of, runs_named
from okl.foundation.settings import settings_from
from okl.foundation.telemetry import run_logger
from okl.foundation.validation import fault, parse_json, sealed, validated
from okl.runs.run import run_folder
from okl.solvers.base import ConvergenceCurve, DriftWatch, LearningCurve
from okl.solvers.settings import TrainSettings

# Classes whose instances a checkpoint may contain
#
# A file names a class by its tag (see okl.foundation.class_tags), and the tag is looked up here: nothing is imported
# because a file says so. Classes of extensions have no tags but their full names; they are those of files and
# packages that this process uses.

PACKAGES = (
    "okl.kernels",
    "okl.losses",
    "okl.features",
    "okl.data.dataset",
    "okl.data.execution",
    "okl.data.order",
    "okl.compiled.fourier",
    "okl.compiled.kernels",
    "okl.solvers",
    "okl.runs.checkpoint",
)
"""Packages and modules that define classes with tags; of packages all modules are imported when a file needs them."""

FORMER_NAMES = Path(__file__).with_name("former_names.json")
"""Tags by the full names that files of format 1 hold; data and not code, as it must not follow when modules move."""


@cache
def import_tagged_classes() -> None:
    """Import the modules that define classes with tags."""
    for name in PACKAGES:
        paths = getattr(import_module(name), "__path__", ())
        for module in pkgutil.walk_packages(paths, f"{name}."):
            import_module(module.name)


def name_of(kind: type[Any]) -> str | None:
    """Return the name by which files refer to a class: its tag, or its full name in an extension; None for others."""
    tag = tag_of(kind)
    if tag is not None:
        return tag
    return next((name for name, registered in plugins.classes().items() if registered is kind), None)


def class_named(name: str) -> type[Any]:
    """Return the class of a file's tag or full name (extension, former okl), or raise CheckpointError."""
    tag = former_names().get(name, name)
    if class_of(tag) is None and "." not in tag:
        import_tagged_classes()
    named_class = class_of(tag) or plugins.classes().get(name)
    if named_class is None:
        raise CheckpointError(
            f"The state holds a {name!r}, a class that this okl does not know. Load the extension that defines it, "
            "use the okl that wrote the state, or train again."
        )
    return named_class


@cache
def former_names() -> dict[str, str]:
    """Return the tags of classes by the full names that stood for them in files of format 1."""
    names: dict[str, str] = json.loads(FORMER_NAMES.read_text(encoding="utf-8"))
    return names


# Position of the training loop: state of the solver, curves and counters


@stored("training-position")
@dataclass(eq=False)
class Position:
    """Position of a training loop, which the loop updates.

    state : of the solver, which holds its position in the data; watch : windows of a stream in its own order
    learning, converging : the curve so far, one of them empty
    seconds : of the loop so far, interruptions left out; run_seconds : of the whole run, likewise
    traffic : rounds and bytes of the whole run so far; resumed : how often the run was resumed
    """

    state: Any
    watch: DriftWatch | None = None
    learning: LearningCurve = field(default_factory=LearningCurve)
    converging: ConvergenceCurve = field(default_factory=ConvergenceCurve)
    seconds: float = 0.0
    run_seconds: float = 0.0
    traffic: Traffic = field(default_factory=Traffic)
    resumed: int = 0


# Serialisation of values as JSON and arrays, with the same bits
#
# The classes that a value is made of are named by their tags (see okl.foundation.class_tags); their instances are made
# without calling any of their code, so that nothing in a file is ever run.

STORED_KINDS = "biuf"  # of numpy's dtypes: booleans, integers, floats
CACHE_LINE_BYTES = 64
Array = np.ndarray[Any, Any]


class EncodedTree:
    """Return a value as JSON and arrays.

    value : None, numbers, texts, arrays, paths, slices, tuples, lists, dicts, and instances of tagged classes
    shared : by name, what is not stored but given again by the reader: the data set, folders
    Raises TypeError : of a class without a tag: declare one with okl.foundation.class_tags.stored where the class is
        defined
    """

    def __init__(self, value: Any, shared: Mapping[str, Any]) -> None:
        self.arrays: dict[str, Array] = {}
        self._shared = shared
        self._names: dict[type[Any], str | None] = {}
        self._array_names: dict[int, str] = {}
        self._numbers: dict[int, int] = {}
        self.tree = self._node(value)

    def _node(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is tuple:
            return [self._node(item) for item in value]
        if isinstance(value, PurePath):
            return self._shared_name(value) or {"path": str(value)}
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic) and value.dtype.kind in STORED_KINDS:
            return {"scalar": [value.dtype.str, value.tobytes().hex()]}
        if sparse.issparse(value):
            return {"csr": [self._node(part) for part in (value.data, value.indices, value.indptr, value.shape)]}
        if kind is list:
            return {"list": [self._node(item) for item in value]}
        if kind is dict:
            return {"dict": [[self._node(key), self._node(item)] for key, item in value.items()]}
        if kind is slice:
            return {"slice": [self._node(part) for part in (value.start, value.stop, value.step)]}
        if kind not in self._names:
            self._names[kind] = name_of(kind)
        if (name := self._names[kind]) is None:
            raise TypeError(
                f"{kind.__module__}.{kind.__qualname__} has no tag; declare one with okl.foundation.class_tags.stored"
            )
        return self._shared_name(value) or self._instance(value, name)

    def _shared_name(self, value: Any) -> dict[str, Any] | None:
        for name, given in self._shared.items():
            if type(given) is type(value) and given == value:
                return {"shared": name}
        return None

    def _instance(self, value: Any, name: str) -> dict[str, Any]:
        if isinstance(value, tuple):
            return {"is": name, "has": [self._node(item) for item in value]}
        if id(value) in self._numbers:
            return {"same": self._numbers[id(value)]}
        self._numbers[id(value)] = len(self._numbers)
        return {"is": name, "has": {key: self._node(item) for key, item in lasting_attributes(value).items()}}

    def _array(self, value: Array) -> dict[str, Any]:
        if value.dtype.kind not in STORED_KINDS or not value.dtype.isnative:
            raise TypeError(f"an array of {value.dtype} cannot be stored")
        if id(value) not in self._array_names:
            self._array_names[id(value)] = name = str(len(self.arrays))
            columns = value.flags.f_contiguous and not value.flags.c_contiguous
            # as bytes go: one that is stored by columns is the transpose of one that is stored by rows
            stored = value.T if columns else value
            self.arrays[name] = np.ascontiguousarray(stored).reshape(stored.shape)  # 0-d ones would become 1-d
            return {"array": name, "columns": True} if columns else {"array": name}
        return {"array": self._array_names[id(value)]}


class DecodedTree:
    """Return the value of JSON and arrays.

    tree, arrays : as EncodedTree left them; arrays are copied, so that they may be written into
    shared : what was not stored, by name
    Raises CheckpointError : the tree refers to something that is missing, or a class that this okl does not know
    """

    def __init__(self, tree: Any, arrays: Mapping[str, Array], shared: Mapping[str, Any]) -> None:
        self._stored, self._shared = arrays, shared
        self._arrays: dict[str, Array] = {}
        self._made: list[Any] = []
        try:
            self.value = self._of(tree)
        except CheckpointError:  # a ValueError, too
            raise
        except (LookupError, TypeError, ValueError, AttributeError, StopIteration, RecursionError) as error:
            raise CheckpointError(f"The state refers to something that is missing: {error!r}.") from None

    def _of(self, node: Any) -> Any:
        if isinstance(node, list):
            return tuple(self._of(item) for item in node)
        if not isinstance(node, dict):
            return node
        if "is" in node:
            return self._instance(class_named(node["is"]), node["has"])
        kind, content = next(iter(node.items()))
        if kind == "array":
            return self._array(content, node.get("columns", False))
        if kind == "list":
            return [self._of(item) for item in content]
        if kind == "dict":
            return {self._of(key): self._of(item) for key, item in content}
        if kind == "slice":
            return slice(*map(self._of, content))
        if kind == "csr":
            *arrays, shape = map(self._of, content)
            return sparse.csr_array(tuple(arrays), shape=shape)
        simple = {
            "float": float,
            "scalar": lambda pair: np.frombuffer(bytes.fromhex(pair[1]), dtype=pair[0])[0],
            "path": Path,
            "shared": self._shared.__getitem__,
            "same": self._made.__getitem__,
        }
        return simple[kind](content)

    def _instance(self, kind: type[Any], content: Any) -> Any:
        if issubclass(kind, tuple):
            return tuple.__new__(kind, [self._of(item) for item in content])
        made = object.__new__(kind)
        self._made.append(made)  # before its parts, as they were numbered
        attributes = {key: self._of(item) for key, item in content.items()}
        vars(made).update(with_todays_names(kind, attributes))
        return made

    def _array(self, name: str, columns: bool) -> Array:
        if name not in self._arrays:
            stored = self._stored[name]
            room = np.empty(stored.nbytes + CACHE_LINE_BYTES, dtype=np.uint8)
            first = -room.ctypes.data % CACHE_LINE_BYTES  # the copy starts at a cache line
            array: Array = room[first : first + stored.nbytes].view(stored.dtype).reshape(stored.shape)
            array[...] = stored
            self._arrays[name] = array.T if columns else array
        return self._arrays[name]


# Checkpoints on disk: folders written atomically and verified by digests
#
#     NAME-000007/checkpoint.json      format version, what it belongs to, digests of the others, and of itself
#                 state.json           the state, but for its arrays
#                 arrays.safetensors   its arrays
#                 beside/              files of workers with vectors of their shards, where there are any
#
# A new one is written next to the last one, which is removed when the new one has its name.

FORMAT_VERSION = 2  # 1 named classes by their modules; see okl.runs.checkpoint.former_names
HEAD, STATE, ARRAYS, WORKER_FILES = "checkpoint.json", "state.json", "arrays.safetensors", "beside"


@dataclass(frozen=True)
class CheckpointHead:
    """Head of a checkpoint. about : its origin; files : sha256 of each file; sizes : bytes of the workers' files."""

    folder: Path
    about: dict[str, Any]
    files: dict[str, str]
    sizes: dict[str, int]


def write_checkpoint(
    run: Path, name: str, value: Any, about: Mapping[str, Any], shared: Mapping[str, Any], worker_files: Path | None
) -> None:
    """Write a checkpoint of a loop; the previous one is removed when this one is complete.

    run : folder of the run; name : of the loop
    value : its position; about : what it belongs to, JSON; shared : see EncodedTree
    worker_files : folder of files of workers to store, too; None: there are none
    Raises OSError : it cannot be written; the last one stays
    """
    home = run / CHECKPOINT
    home.mkdir(exist_ok=True)
    older = checkpoints_of(run, name)
    number = 1 + (int(older[-1].name.rpartition("-")[2]) if older else 0)
    partial, final_path = home / f".{name}.partial", home / f"{name}-{number:0{DIGITS}d}"
    for left in home.glob(".*"):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    try:
        partial.mkdir()
        _write(partial, value, about, shared, worker_files)
        partial.rename(final_path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    sync(home)
    for checkpoint in older:  # first out of sight: a process that is killed meanwhile must not leave half of one
        going = checkpoint.rename(home / f".{checkpoint.name}.going")
        shutil.rmtree(going, ignore_errors=True)


def checkpoints_of(run: Path, name: str) -> list[Path]:
    """Return the checkpoints of a loop, the latest last."""
    return sorted(path for path in checkpoints_in(run) if path.name[: -DIGITS - 1] == name)


def read_head(folder: Path) -> CheckpointHead:
    """Return the head of a checkpoint. Raises CheckpointError (it is missing, damaged, or of a later okl)."""
    try:
        stored = (folder / HEAD).read_bytes()
        head = parse_json(stored)
        version, about, files, sizes = (head[key] for key in ("format_version", "about", "files", "sizes"))
    except OSError as error:
        raise _damaged(folder / HEAD, f"it cannot be read ({error.strerror})") from None
    except (ValueError, TypeError, KeyError):
        raise _damaged(folder / HEAD, "it is not the JSON of a checkpoint") from None
    if not all(map(isinstance, (version, about, files, sizes), (int, dict, dict, dict))):
        raise _damaged(folder / HEAD, "it is not the JSON of a checkpoint")
    if version > FORMAT_VERSION:
        raise CheckpointError(
            f"{folder / HEAD} has format {version}, but this version of okl reads formats up to {FORMAT_VERSION}. "
            "Resume with the version of okl that started the run."
        )
    if sealed(head) != stored:
        raise _damaged(folder / HEAD, "its bytes do not have the sha256 that it states")
    named = {STATE, ARRAYS, *(f"{WORKER_FILES}/{name}" for name in sizes)}
    if not {STATE, ARRAYS} <= {*files} <= named or any(PurePath(name).name != name for name in sizes):
        raise _damaged(folder / HEAD, "it names other files than those of a checkpoint")
    return CheckpointHead(folder, about, files, sizes)


def read_value(head: CheckpointHead, shared: Mapping[str, Any]) -> Any:
    """Return the position of a checkpoint, with the same bits; CheckpointError if a file is missing or damaged."""
    folder = head.folder
    try:
        for name, digest in head.files.items():
            if file_sha256(folder / name) != digest:
                raise _damaged(folder / name, f"its bytes do not have the sha256 that {HEAD} states")
        tree, arrays = parse_json((folder / STATE).read_bytes()), load_file(folder / ARRAYS)
    except CheckpointError:  # a ValueError, too
        raise
    except OSError as error:
        raise _damaged(Path(error.filename or folder), f"it cannot be read ({error.strerror})") from None
    except (ValueError, SafetensorError) as error:
        raise _damaged(folder, str(error)) from None
    return DecodedTree(tree, arrays, shared).value


def restore_worker_files(head: CheckpointHead, folder: Path) -> None:
    """Restore the workers' files to their location; existing files have the same name and content."""
    for name in head.sizes:
        if not (folder / name).exists():
            _link(head.folder / WORKER_FILES / name, folder / name)


def _write(
    partial: Path, value: Any, about: Mapping[str, Any], shared: Mapping[str, Any], worker_files: Path | None
) -> None:
    apart = EncodedTree(value, shared)
    save_arrays(apart.arrays, partial / ARRAYS)
    (partial / STATE).write_text(json.dumps(apart.tree, allow_nan=False, separators=(",", ":")), encoding="utf-8")
    sizes = {} if worker_files is None else _link_files(worker_files, partial / WORKER_FILES)
    head = {
        "format_version": FORMAT_VERSION,
        "about": about,
        "files": {
            name: file_sha256(partial / name) for name in (STATE, ARRAYS, *(f"{WORKER_FILES}/{n}" for n in sizes))
        },
        "sizes": sizes,
    }
    (partial / HEAD).write_bytes(sealed(head))
    for name in (STATE, ARRAYS, HEAD):
        sync(partial / name)
    sync(partial)


def _link_files(source: Path, destination: Path) -> dict[str, int]:
    """Link to the files of a folder, so that they remain when workers replace them; return sizes by name."""
    destination.mkdir()
    sizes = {}
    for path in sorted(source.glob("*.npy")):
        try:
            _link(path, destination / path.name)
        except FileNotFoundError:  # replaced meanwhile by a later one: nobody needs it
            continue
        sync(destination / path.name)
        sizes[path.name] = (destination / path.name).stat().st_size
    sync(destination)
    return sizes


def _link(source: Path, destination: Path) -> None:
    try:
        os.link(source, destination)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without links
        shutil.copyfile(source, destination)


def _damaged(path: Path, why: str) -> CheckpointError:
    return CheckpointError(f"{path} is damaged: {why}. Train again without --resume, and remove the unfinished run.")


# Origin of a checkpoint: data, settings and code, which determine the bits of the model

WHERE_IT_RUNS = frozenset(
    {"workers", "scheduler", "cluster", "tls", "threads", "out", "name", "checkpoint_seconds", "checkpoint_rounds"}
)
"""Settings that never change the model's bits."""


@dataclass(frozen=True)
class Origin:
    """Data, settings and code of a run.

    settings : all of them, as JSON; mode : what auto means there
    data_sha256 : of the manifest, which holds those of its shards; source_sha256 : of okl's own code
    versions : of okl, Python, what computes, and extensions in use; processor : kind
    key : given when the run was started, to find it again; "" for none
    """

    settings: dict[str, Any]
    mode: str
    data_sha256: str
    source_sha256: str
    versions: dict[str, str]
    processor: str
    key: str = ""

    @classmethod
    def of(cls, settings: TrainSettings, data: Dataset, key: str = "") -> Origin:
        """Return the origin of a run that starts or resumes now."""
        versions = {name: version_of(name) for name in RECORDED} | {"python": platform.python_version()}
        versions |= plugins.origins(*settings.names)
        stored = settings.model_dump(mode="json")
        return cls(stored, settings.training_mode, data.sha256, source_sha256(), versions, processor(), key)

    def resumed_from(self, stored: Origin) -> Origin:
        """Return the origin of a resumed run: its automatic mode stays as stored in the checkpoint."""
        settings = self.settings | _location_settings(stored.settings)
        return replace(self, key=stored.key, mode=stored.mode, settings=settings)


def _location_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that, with the solver, determine the automatic mode."""
    return {name: settings[name] for name in ("workers", "scheduler", "cluster") if name in settings}


def with_mode_of(stored: Mapping[str, Any], settings: TrainSettings) -> TrainSettings:
    """Return the settings of a resumed run, in the mode of the stored ones: another would learn other bits."""
    mode = settings.model_copy(update=_location_settings(stored)).training_mode
    return settings if mode == settings.training_mode else settings.model_copy(update={"mode": mode})


def check_same_settings(stored: Origin, settings: TrainSettings, run: str) -> None:
    """Raise CheckpointError if settings differ from a checkpoint's, except execution and mode (`with_mode_of`)."""
    usual = {name: field.get_default() for name, field in TrainSettings.model_fields.items() if name != "options"}
    before: dict[str, Any] = usual | stored.settings | {"mode": stored.mode}  # older runs had fewer settings
    now = settings.model_dump(mode="json") | {"mode": with_mode_of(before, settings).training_mode}
    defaults = type(settings.options)().model_dump(mode="json") | before  # of options that are newer than the run
    for name in now:
        if name not in WHERE_IT_RUNS and now[name] != defaults.get(name) and not _renamed(settings, name, before):
            raise CheckpointError(
                f"{run} was started with {name} = {before.get(name)!r}, but {name} = {now[name]!r} was given. Remove "
                "it to resume the run, or remove --resume to start a new one."
            )


def _renamed(settings: TrainSettings, name: str, before: Mapping[str, Any]) -> bool:
    """Return whether a stored value is a former name of the value of today, which validation replaces."""
    try:
        return name in before and settings.replaced(**{name: before[name]}) == settings
    except (ValidationError, OklError):
        return False


def check_same_origin(stored: Origin, now: Origin, data: object, run: str) -> None:
    """Raise CheckpointError, with locations, if data or code differ from those of a checkpoint."""
    if stored.data_sha256 != now.data_sha256:
        raise CheckpointError(
            f"{run} was trained on data with sha256 {stored.data_sha256[:12]}, but {data} has {now.data_sha256[:12]}. "
            "Restore the original data, or remove --resume to start a new run."
        )
    before, after = (origin.versions | {"code": origin.source_sha256[:12]} for origin in (stored, now))
    differing = [name for name in after if before.get(name) != after[name]]
    if differing:
        then, new = (", ".join(f"{name} {origin.get(name)}" for name in differing) for origin in (before, after))
        raise CheckpointError(
            f"{run} was started with {then}, but this is {new}: the resumed model could differ. Use the versions of "
            "the start, or remove --resume to start a new run."
        )


@cache
def source_sha256() -> str:
    """Return a digest of okl's code, because a checkout changes without its version number."""
    folder = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


# Periodic checkpoints of the loops of a run

MAIN = "model"
_LOG = run_logger()


@dataclass(eq=False)
class RunCheckpoints:
    """Checkpoints of the loops of a run, in its folder.

    folder : of the run, while it is unfinished; origin : what it belongs to
    seconds : between two checkpoints, 0 for none by the clock; rounds : steps of the solver between two, None for none
        by their number
    shared : what is not stored, by name; worker_files : folder of files that workers write, None for none
    started : time.perf_counter() when this process started or resumed the run
    resumed : how often the run was resumed; run_seconds, traffic : of all that came before this process
    """

    folder: Path
    origin: Origin
    seconds: float
    rounds: int | None
    shared: Mapping[str, Any]
    worker_files: Path | None = None
    started: float = field(default_factory=time.perf_counter)
    resumed: int = 0
    run_seconds: float = 0.0
    traffic: Traffic = field(default_factory=Traffic)

    def of(self, loop: str) -> LoopCheckpoints:
        return LoopCheckpoints(self, loop)

    def total_traffic(self, execution: Execution) -> Traffic:
        """Return the network traffic of this process and of those before it."""
        return execution.traffic.plus(self.traffic)

    def total_seconds(self) -> float:
        """Return the seconds of the run so far, without interruptions."""
        return self.run_seconds + time.perf_counter() - self.started

    def resume(self) -> Position | None:
        """Return the position of the main loop, None without a checkpoint; CheckpointError if damaged."""
        at = last = self.read(MAIN)
        checkpoints = sorted(checkpoints_in(self.folder), key=lambda checkpoint: checkpoint.stat().st_mtime_ns)
        if checkpoints and checkpoints[-1] not in checkpoints_of(self.folder, MAIN):  # of a later loop
            last = read_value(read_head(checkpoints[-1]), self.shared)
        if last is not None:
            self.resumed, self.run_seconds, self.traffic = last.resumed + 1, last.run_seconds, last.traffic
        return at

    def read(self, loop: str) -> Position | None:
        """Return the stored position of a loop. Raises CheckpointError (the checkpoint is damaged)."""
        if not (checkpoints := checkpoints_of(self.folder, loop)):
            return None
        head = read_head(checkpoints[-1])
        position: Position = read_value(head, self.shared)
        if self.worker_files is not None:
            restore_worker_files(head, self.worker_files)
        return position

    def write(self, loop: str, position: Position, execution: Execution) -> None:
        """Write a checkpoint of a loop; if that fails, warn and continue with the last checkpoint."""
        seconds, traffic = self.total_seconds(), self.total_traffic(execution)
        position = replace(position, run_seconds=seconds, traffic=traffic, resumed=self.resumed)
        try:
            write_checkpoint(self.folder, loop, position, asdict(self.origin), self.shared, self.worker_files)
        except OSError as error:
            _LOG.warning(
                "Could not write a checkpoint (%s). The run continues, and the last checkpoint remains.", error
            )


class LoopCheckpoints:
    """Checkpoints of one loop. run : checkpoints of the run; None: there are none, and none are written"""

    def __init__(self, run: RunCheckpoints | None = None, loop: str = MAIN) -> None:
        self._run, self._loop = run, loop
        self._last_seconds, self._steps = time.perf_counter(), 0

    def last(self) -> Position | None:
        """Return the last position of an interrupted loop; None for a new one."""
        return None if self._run is None else self._run.read(self._loop)

    def offer(self, position: Position, execution: Execution) -> None:
        """Write a checkpoint after a step of the loop if the set number of seconds or steps is over."""
        self._steps += 1
        run, now = self._run, time.perf_counter()
        if run is None:
            return
        if (run.seconds and now - self._last_seconds >= run.seconds) or (run.rounds and self._steps >= run.rounds):
            run.write(self._loop, position, execution)
            self._last_seconds, self._steps = time.perf_counter(), 0


def find_unfinished(run: str) -> Path:
    """Return the unfinished folder of a run, by its name, final folder or itself; CheckpointError lists those there."""
    location = place_of(run).absolute()
    if not isinstance(location, Path) and location.exists() and not is_leftover(location):
        raise CheckpointError(f"{location} is complete: there is nothing left to resume.")
    path = local_folder(location)
    if resumable(path):
        return path
    if UNFINISHED_RUN.fullmatch(path.name) and path.is_dir():
        raise CheckpointError(f"{path} has no checkpoint: the run ended before its first one. Train again.")
    candidates = [path] if "/" in run else [path, okl_home() / "runs" / run]
    for location in candidates:
        if location.exists():
            raise CheckpointError(f"{location} is complete: there is nothing left to resume.")
        named = {folder: folders_name_of(folder) for folder in resumable_in(location.parent)}
        if folders := [one for one, name in named.items() if location.name in (name, DATED.sub("", name))]:
            return max(folders, key=lambda folder: max(latest.stat().st_mtime for latest in checkpoints_in(folder)))
    if "/" not in run and (complete := runs_named(run)):
        raise CheckpointError(f"{complete[0]} is complete: there is nothing left to resume.")
    names = sorted({folders_name_of(folder) for location in candidates for folder in resumable_in(location.parent)})
    advice = f"Runs that can be resumed: {', '.join(names)}." if names else "Train again without --resume."
    raise CheckpointError(f"No unfinished run {run!r} with a checkpoint is in {candidates[-1].parent}. {advice}")


def find_by_key(key: str, settings: TrainSettings) -> Path | None:
    """Return the unfinished folder of a run that was started with a key; None without a checkpoint."""
    for folder in resumable_in(local_folder(run_folder(settings)).parent):
        with suppress(CheckpointError):  # somebody else's, damaged
            if newest_origin(folder).key == key:
                return folder
    return None


def newest_origin(folder: Path) -> Origin:
    """Return the origin that the newest checkpoint of an unfinished run states; raises CheckpointError."""
    head = read_head(max(checkpoints_in(folder), key=lambda checkpoint: checkpoint.stat().st_mtime_ns))
    try:
        return validated(Origin, head.about)
    except ValidationError as error:
        raise _damaged(head.folder / HEAD, fault(error)) from None


def settings_of(folder: Path) -> TrainSettings:
    """Return the settings of an unfinished run; CheckpointError if damaged, or unknown to this okl."""
    stored = newest_origin(folder).settings
    unknown = sorted(set(stored) - {*TrainSettings.option_names(), "start"})
    if unknown:
        raise CheckpointError(
            f"{folder} was started with settings that this version of okl does not have: {', '.join(unknown)}. Resume "
            "with the version that started the run."
        )
    return settings_from(TrainSettings, dict(stored), str(folder))
