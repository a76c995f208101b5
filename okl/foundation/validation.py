"""Argument checks that raise ConfigError with the expected and the received value."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from numbers import Integral, Real
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from okl.foundation.errors import ConfigError

Kind = TypeVar("Kind")


def check_positive(name: str, value: float) -> float:
    """Return value if it is a finite number above zero, NumPy's among them, or raise ConfigError."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value) or value <= 0:
        raise ConfigError(f"{name} = {value!r}; expected a finite number above 0.")
    return float(value)


def check_nonnegative(name: str, value: float) -> float:
    """Return value if it is a finite number of at least 0, or raise ConfigError."""
    if not (math.isfinite(value) and value >= 0):
        raise ConfigError(f"{name} = {value!r}; expected a finite number of at least 0.")
    return value


def check_at_least(name: str, value: int, least: int) -> int:
    """Return value if it is a whole number not below least, NumPy's and 3.0 among them, or raise ConfigError."""
    whole = isinstance(value, Integral) or (isinstance(value, Real) and float(value).is_integer())
    if isinstance(value, bool) or not whole or value < least:
        raise ConfigError(f"{name} = {value!r}; expected an integer of at least {least}.")
    return int(value)


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; ValueError for bad JSON, double names, infinities or deep nesting."""
    try:
        return json.loads(text, object_pairs_hook=_unlike, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def sealed(content: Mapping[str, Any], seal: str = "sha256") -> bytes:
    """Return JSON with its own digest at the end, which any changed byte breaks; ValueError for infinities."""
    body = {name: value for name, value in content.items() if name != seal}
    return _text({**body, seal: hashlib.sha256(_text(body)).hexdigest()})


def _text(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False).encode()


def validated(kind: type[Kind], values: Any) -> Kind:
    """Return a dataclass from its fields as JSON has them; raises ValidationError for a missing or malformed one."""
    adapter: TypeAdapter[Kind] = _adapter(kind)  # type: ignore[arg-type]  # a class is hashable
    return adapter.validate_python(values)


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def check_fields(kind: type[Any], names: Iterable[str]) -> None:
    """Raise ValueError for a name that is not a field of a dataclass."""
    if unknown := {*names} - {field.name for field in fields(kind)}:
        raise ValueError(f"unknown {min(unknown)!r}")


def fault(error: ValueError) -> str:
    """Return what is wrong, for the middle of a sentence; of an error of pydantic the first fault and its place."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _unlike(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a name occurs twice")
    return values


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""Names of models and runs: they are names of folders, parts of URLs, and words of a shell and of reports."""


def check_name(name: str) -> str:
    """Return the name of a model or run, or raise ConfigError."""
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a name: expected at most 100 characters, of a-z, A-Z, 0-9, '.', '-' and '_', starting "
            "with a letter or digit."
        )
    return name


OTHER_NAMES = {"rbf": "gaussian", "poly": "polynomial", "laplace": "laplacian", "matern": "matern52"}
"""Choices of okl by their names in other libraries."""


def check_choice(name: str, value: str, choices: Collection[str]) -> str:
    """Return value if it is among the choices, or raise ConfigError that lists them, or the nearest of many."""
    if value not in choices:
        meant = OTHER_NAMES.get(str(value))
        hint = f" (did you mean {meant!r}?)" if meant in choices else ""
        listed = f"expected one of {', '.join(sorted(choices))}{hint}."
        near = get_close_matches(str(value), [*choices], 1, 0.7) if len(listed) > 150 else []
        raise ConfigError(f"{name} = {value!r}; " + (f"did you mean {near[0]}?" if near else listed))
    return value


def bytes_from_environment(variable: str, default: int) -> int:
    """Return the number of bytes in an environment variable, or the default; raise ConfigError for anything else."""
    text = os.environ.get(variable, str(default))
    if not text.isdigit():
        raise ConfigError(f"{variable} = {text!r}; expected a number of bytes, such as {default}.")
    return int(text)
