"""From command-line words to values of settings: help texts, what was given, TOML files, KEY=VALUE pairs."""

from __future__ import annotations

import tomllib
from typing import Any

from pydantic import BaseModel

from okl.errors import ConfigError

INGEST = {
    "target": "target",
    "task": "task",
    "split_column": "split_column",
    "holdout": "holdout",
    "key": "keys",
    "drop": "drop",
    "scale": "scale",
    "scale_target": "scale_target",
    "rows_per_shard": "rows_per_shard",
    "missing": "missing",
}
TRAIN = {
    name: name
    for name in (
        *("solver", "kernel", "bandwidth", "frequencies", "loss", "step_size", "class_weights", "passes", "rounds"),
        *("order", "seed", "precision", "mode", "workers", "scheduler", "threads", "out", "name"),
    )
}


def help_for(kind: type[BaseModel], field: str, with_default: bool = True) -> str:
    """The help of an option, from the description and default of the setting behind it."""
    info = kind.model_fields[field]
    text = info.description or ""
    if with_default and info.default not in (None, (), False) and not info.is_required():
        text += f" [default: {info.default}]"
    return text


def gather(given: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Of a command's arguments, those that were given, under the names of their settings."""
    values = {setting: given[option] for option, setting in names.items() if given.get(option) is not None}
    if "holdout" in values:
        values["holdout"] = _number_or_text(values["holdout"])
    if "=" in str(values.get("class_weights", "")):
        values["class_weights"] = dict(pair.split("=", 1) for pair in values["class_weights"].split(","))
    return values


def split_pairs(pairs: list[str]) -> dict[str, Any]:
    """KEY=VALUE words as values: read like TOML where that works, as text where it does not."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {pair!r}, but it takes KEY=VALUE, such as epsilon=0.1.")
        try:
            values[key.strip().replace("-", "_")] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            values[key.strip().replace("-", "_")] = text
    return values


def read_config(path: str) -> dict[str, Any]:
    """The settings in a TOML file; dashes in names are underscores."""
    try:
        with open(path, "rb") as stream:
            values = tomllib.load(stream)
    except OSError as error:
        raise ConfigError(f"--config {path} cannot be read ({error.strerror}).") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"--config {path} is not TOML: {error}.") from None
    return {name.replace("-", "_"): value for name, value in values.items()}


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
