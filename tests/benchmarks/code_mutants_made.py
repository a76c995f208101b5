"""Mutants as syntax trees, and the replacement of the code of imported functions by that of a mutant."""

from __future__ import annotations

import ast
import builtins
import copy
import importlib.abc
import importlib.machinery
import importlib.util
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

PLAIN = "_plain_whole_number"
COMPILED = "okl.compiled."
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
TWINS = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "argmin": "argmax", "argmax": "argmin"}


class Mutant(NamedTuple):
    """A changed module, the changed function and line, and a description of the change."""

    tree: ast.Module
    function: str
    line: int
    change: str


def drawn_mutants(file: Path, number: int, rng: random.Random) -> list[Mutant]:
    """Return `number` mutants of a file, or all if there are fewer, drawn without replacement."""
    tree = ast.parse(file.read_text())
    places = list(_places(tree))
    chosen = sorted(rng.sample(range(len(places)), min(number, len(places))))
    return [_mutated(tree, *places[index]) for index in chosen]


def _places(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield where a module can be changed: the index of the node in the order of ast.walk, and the kind of change."""
    left_out = {id(part) for node in ast.walk(tree) for root in _not_code(node) for part in ast.walk(root)}
    inside = _functions(tree)
    for index, node in enumerate(ast.walk(tree)):
        if id(node) in left_out or id(node) not in inside:
            continue
        if isinstance(node, ast.Compare):
            yield from (
                (index, f"compare {position}")
                for position, operator in enumerate(node.ops)
                if type(operator) in COMPARISONS
            )
        elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATORS:
            yield index, "operator"
        elif isinstance(node, ast.BoolOp):
            yield index, "and / or"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
            yield index, "sign"
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            yield index, "constant"
        elif isinstance(node, ast.Name | ast.Attribute) and _name(node) in TWINS and isinstance(node.ctx, ast.Load):
            yield index, "twin"
        elif isinstance(node, ast.Break | ast.Continue) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        ):
            yield index, "leave out"


def _functions(tree: ast.Module) -> dict[int, str]:
    """Return the outermost function of each node as Class.function; nodes outside of functions are left out."""
    methods = [(f"{node.name}.", part) for node in tree.body if isinstance(node, ast.ClassDef) for part in node.body]
    return {
        id(part): prefix + node.name
        for prefix, node in [*(("", node) for node in tree.body), *methods]
        if isinstance(node, ast.FunctionDef)
        for part in ast.walk(node)
    }


def _not_code(node: ast.AST) -> Iterator[ast.AST]:
    """Yield parts of a node that a call does not run: annotations, defaults, decorators; and messages of errors."""
    for name in ("annotation", "returns", "args"):
        part = getattr(node, name, None)
        if isinstance(part, ast.AST):
            yield part
    yield from getattr(node, "decorator_list", [])
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
        yield node


def _name(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def _mutated(tree: ast.Module, index: int, kind: str) -> Mutant:
    changed = copy.deepcopy(tree)
    nodes: Sequence[Any] = list(ast.walk(changed))
    node = nodes[index]
    function = _functions(changed)[id(node)]
    statement = ast.unparse(node)
    if kind.startswith("compare"):
        position = int(kind.split()[1])
        node.ops[position] = COMPARISONS[type(node.ops[position])]()
    elif kind == "operator":
        node.op = OPERATORS[type(node.op)]()
    elif kind == "and / or":
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif kind == "constant":
        node.value = (not node.value) if isinstance(node.value, bool) else _another(node.value)
    elif kind == "twin":
        setattr(node, "id" if isinstance(node, ast.Name) else "attr", TWINS[_name(node)])
    else:
        _replaced(changed, node, ast.Pass() if kind == "leave out" else node.operand)
    new = ast.unparse(node) if kind not in ("leave out", "sign") else "" if kind == "leave out" else statement[1:]
    return Mutant(ast.fix_missing_locations(changed), function, node.lineno, f"{statement} -> {new}")


def _another(number: float) -> float:
    """Return number + 1, or half of a number so large that adding 1 has no effect."""
    return number + 1 if number + 1 != number else 0.5 * number


def _replaced(tree: ast.Module, old: ast.AST, new: ast.AST) -> None:
    class Swap(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return ast.copy_location(new, old) if node is old else super().visit(node)

    Swap().visit(tree)


class _Whole(ast.NodeTransformer):
    """A transformer that passes reads of arrays through a function: without numba, sums of small integers overflow."""

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(ast.Call(ast.Name(PLAIN, ast.Load()), [node], []), node)


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, np.uint8 | np.int8 | np.int32 | np.uint32) else value


class _Loader(importlib.abc.Loader):
    def __init__(self, path: str) -> None:
        self._path = path

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = self._path
        exec(_compiled(ast.parse(Path(self._path).read_text()), module.__name__, self._path), module.__dict__)


class _Finder(importlib.abc.MetaPathFinder):
    """A finder of the modules of okl.compiled."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith(COMPILED):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        assert spec is not None
        assert spec.origin is not None
        return importlib.util.spec_from_loader(name, _Loader(spec.origin), origin=spec.origin)


def read_whole_numbers() -> None:
    """Import the modules of okl.compiled so that Python computes the same integers as numba."""
    assert not any(name.startswith(COMPILED) for name in sys.modules), "already imported"
    setattr(builtins, PLAIN, _plain)
    sys.meta_path.insert(0, _Finder())


def _compiled(tree: ast.Module, name: str, path: str) -> CodeType:
    if name.startswith(COMPILED):
        tree = ast.fix_missing_locations(_Whole().visit(copy.deepcopy(tree)))
    return compile(tree, path, "exec")


def put_in_place(mutant: Mutant, name: str) -> bool:
    """Give the changed function of a module the mutant's code for all its references; return False if impossible."""
    module = sys.modules[name]
    codes = {code.co_qualname: code for code in _codes(_compiled(mutant.tree, name, str(module.__file__)))}
    function = _plain_function(module, mutant.function)
    if function is None or len(codes[mutant.function].co_freevars) != len(function.__code__.co_freevars):
        return False
    function.__code__ = codes[mutant.function]
    return True


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _plain_function(module: ModuleType, qualified: str) -> FunctionType | None:
    """Return a function of a module or of a class in it, without its wrappers."""
    value: Any = module
    for part in qualified.split("."):
        value = vars(value).get(part)
        for wrapper in ("__func__", "fget", "func", "__wrapped__"):
            value = getattr(value, wrapper, None) or value
    return value if isinstance(value, FunctionType) else None
