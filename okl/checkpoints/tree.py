"""Values taken apart into JSON and arrays, and put together again with the same bits.

What a value is made of is named by classes that okl knows (see okl.checkpoints.known); their instances are made without
calling any of their code, so that nothing in a file is ever run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from okl.checkpoints.known import known_classes, known_names
from okl.errors import CheckpointError

STORED_KINDS = "biuf"  # of numpy's dtypes: booleans, integers, floats
CACHE_LINE_BYTES = 64
Array = np.ndarray[Any, Any]


class TakenApart:
    """A value as JSON and arrays.

    Parameters
    ----------
    value : None, numbers, texts, arrays, paths, slices, tuples, lists, dicts, and instances of known classes
    shared : by name, what is not stored but given again by whoever reads: the data set, folders

    Raises
    ------
    TypeError : of another class: whoever adds one to a solver's state adds it to okl.checkpoints.known
    """

    def __init__(self, value: Any, shared: Mapping[str, Any]) -> None:
        self.arrays: dict[str, Array] = {}
        self._shared, self._names = shared, known_names()
        self._array_names: dict[int, str] = {}
        self._places: dict[int, int] = {}
        self.tree = self._node(value)

    def _node(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is tuple:
            return [self._node(item) for item in value]
        if kind in self._names or isinstance(value, PurePath):
            return self._known(value)
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic) and value.dtype.kind in STORED_KINDS:
            return {"scalar": [value.dtype.str, value.tobytes().hex()]}
        if kind is list:
            return {"list": [self._node(item) for item in value]}
        if kind is dict:
            return {"dict": [[self._node(key), self._node(item)] for key, item in value.items()]}
        if kind is slice:
            return {"slice": [self._node(part) for part in (value.start, value.stop, value.step)]}
        raise TypeError(f"{kind.__module__}.{kind.__qualname__} is not known to okl.checkpoints.known")

    def _known(self, value: Any) -> dict[str, Any]:
        for name, given in self._shared.items():
            if type(given) is type(value) and given == value:
                return {"shared": name}
        if isinstance(value, PurePath):
            return {"path": str(value)}
        name = self._names[type(value)]
        if isinstance(value, tuple):
            return {"is": name, "has": [self._node(item) for item in value]}
        if id(value) in self._places:
            return {"same": self._places[id(value)]}
        self._places[id(value)] = len(self._places)
        return {"is": name, "has": {key: self._node(item) for key, item in vars(value).items()}}

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


class PutTogether:
    """The value that was taken apart.

    Parameters
    ----------
    tree, arrays : as TakenApart left them; arrays are copied, so that they may be written into
    shared : what was not stored, by name

    Raises
    ------
    CheckpointError : the tree names what is not there
    """

    def __init__(self, tree: Any, arrays: Mapping[str, Array], shared: Mapping[str, Any]) -> None:
        self._stored, self._shared = arrays, shared
        self._arrays: dict[str, Array] = {}
        self._made: list[Any] = []
        try:
            self.value = self._of(tree)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise CheckpointError(f"The state names what is not there: {error!r}.") from None

    def _of(self, node: Any) -> Any:
        if isinstance(node, list):
            return tuple(self._of(item) for item in node)
        if not isinstance(node, dict):
            return node
        if "is" in node:
            return self._known(known_classes()[node["is"]], node["has"])
        kind, content = next(iter(node.items()))
        if kind == "array":
            return self._array(content, node.get("columns", False))
        if kind == "list":
            return [self._of(item) for item in content]
        if kind == "dict":
            return {self._of(key): self._of(item) for key, item in content}
        if kind == "slice":
            return slice(*map(self._of, content))
        simple = {
            "float": float,
            "scalar": lambda pair: np.frombuffer(bytes.fromhex(pair[1]), dtype=pair[0])[0],
            "path": Path,
            "shared": self._shared.__getitem__,
            "same": self._made.__getitem__,
        }
        return simple[kind](content)

    def _known(self, kind: type[Any], content: Any) -> Any:
        if issubclass(kind, tuple):
            return tuple.__new__(kind, [self._of(item) for item in content])
        made = object.__new__(kind)
        self._made.append(made)  # before its parts, as they were numbered
        vars(made).update({key: self._of(item) for key, item in content.items()})
        return made

    def _array(self, name: str, columns: bool) -> Array:
        if name not in self._arrays:
            stored = self._stored[name]
            array = _aligned(stored)
            self._arrays[name] = array.T if columns else array
        return self._arrays[name]


def _aligned(stored: Array) -> Array:
    """A copy that begins at a cache line."""
    room = np.empty(stored.nbytes + CACHE_LINE_BYTES, dtype=np.uint8)
    first = -room.ctypes.data % CACHE_LINE_BYTES
    array: Array = room[first : first + stored.nbytes].view(stored.dtype).reshape(stored.shape)
    array[...] = stored
    return array
