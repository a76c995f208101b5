"""Settings from what a person wrote: a command line, a TOML file, the parameters of a flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from okl.errors import ConfigError

Settings = TypeVar("Settings", bound=BaseModel)


def settings_from(kind: type[Settings], values: dict[str, Any], where: str) -> Settings:
    """Validate values into settings, or raise ConfigError: a sentence an offending field, and where they came from."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        faults: dict[str, list[str]] = {}
        for fault in error.errors():
            # the words after the first tell the members of a union apart; a person sees the field and its value
            field, path = str(fault["loc"][0]), ".".join(map(str, fault["loc"]))
            if fault["type"] == "extra_forbidden":
                takes = f"it takes {', '.join(kind.model_fields)}" if path == field else f"see the fields of {field}"
                close = get_close_matches(path, kind.model_fields, 2, 0.7)
                near = f" (did you mean {' or '.join(close)}?)" if close else ""
                faults[f"{path!r} is not an option{near}; {takes}"] = []
            elif fault["type"] == "missing":
                faults[f"{path} is missing"] = []
            else:
                name, value = _innermost(values, fault["loc"])
                faults.setdefault(f"{name} = {value!r}", []).append(_reason(fault))
        told = [what + (f": {', or '.join(dict.fromkeys(why))}" if why else "") for what, why in faults.items()]
        raise ConfigError(f"{where}: {'; '.join(told)}.") from None


def _innermost(values: Mapping[str, Any], place: Sequence[int | str]) -> tuple[str, Any]:
    """The name and value of the field that is at fault, in settings within settings that of the inner one."""
    name = str(place[0])
    value = values[name]
    for inner in place[1:]:
        if not isinstance(value, Mapping) or inner not in value:
            break
        name, value = str(inner), value[inner]
    return name, value


def _reason(fault: ErrorDetails) -> str:
    """What is wrong, for the middle of a sentence: as pydantic tells it, or whoever refused the value."""
    told = str(fault["ctx"]["error"]) if fault["type"] == "value_error" else fault["msg"]
    return told[:1].lower() + told[1:].rstrip(".")
