"""From the words of a command line to one object of settings: TOML files, KEY=VALUE pairs, options, places of data."""

from __future__ import annotations

import tomllib
from pathlib import Path

from flows.options import Given
from okl.configuration import IngestSettings, TrainSettings, settings_from
from okl.errors import ConfigError
from okl.store.places import absolute_location, place_of
from okl.tomlfiles import read_toml


def train_settings(
    dataset: str, options: Given, ingest_options: Given, config: str | None, pairs: list[str]
) -> TrainSettings:
    """One object from a TOML file, then --set pairs, then options; paths become absolute."""
    return settings_from(TrainSettings, _train_values(dataset, options, ingest_options, config, pairs), "okl train")


def resumed_settings(
    run: TrainSettings, dataset: str | None, options: Given, ingest_options: Given, config: str | None, pairs: list[str]
) -> TrainSettings:
    """The settings that a run was begun with, and what was given beside --resume; the run refuses what may not be."""
    given = _train_values(dataset or run.data, options, ingest_options, config, pairs)
    if isinstance(ingest := given.pop("ingest", None), IngestSettings):
        given["ingest"] = (run.ingest or IngestSettings()).model_dump() | ingest.model_dump(exclude_unset=True)
    return settings_from(TrainSettings, run.model_dump() | given, "okl train")


def _train_values(dataset: str, options: Given, ingest_options: Given, config: str | None, pairs: list[str]) -> Given:
    """What was given, by the names of settings; paths are absolute."""
    values = read_config(config) if config else {}
    ingest_values = values.pop("ingest", {})
    if not isinstance(ingest_values, dict):
        raise ConfigError(
            f"--config {config}: ingest = {ingest_values!r}, but it is a table: [ingest], then target = ..."
        )
    for name, value in split_pairs(pairs).items():
        if name.startswith("ingest."):
            ingest_values[name.removeprefix("ingest.")] = value
        else:
            values[name] = value
    values |= options | {"data": data_location(dataset)}
    if values.get("out"):
        values["out"] = absolute_location(str(values["out"]))
    if ingest_values or ingest_options:
        values["ingest"] = settings_from(IngestSettings, ingest_values | ingest_options, "okl train")
    return values


def data_location(dataset: str) -> str:
    """Where data lie, from the root; raises ConfigError for the folder of a run, whose files are no rows."""
    place = place_of(dataset)
    if isinstance(place, Path) and (place / "result.json").is_file() and (place / "model").is_dir():
        kept = f" Its data are in {place / 'data'}." if (place / "data").is_dir() else ""
        raise ConfigError(
            f"{dataset} is the folder of a run, and not of data.{kept} To set runs side by side: okl runs."
        )
    return absolute_location(dataset)


def split_pairs(pairs: list[str]) -> Given:
    """KEY=VALUE words as values: read like TOML where that works, as text where it does not."""
    values: Given = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {pair!r}, but it takes KEY=VALUE, such as epsilon=0.1.")
        try:
            values[_underscored(key.strip())] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            values[_underscored(key.strip())] = text
    return values


def read_config(path: str) -> Given:
    """The settings in a TOML file; dashes in names are underscores."""
    values = read_toml(path, "--config")
    if isinstance(values.get("ingest"), dict):
        values["ingest"] = {_underscored(name): value for name, value in values["ingest"].items()}
    return {_underscored(name): value for name, value in values.items()}


def _underscored(name: str) -> str:
    return name.replace("-", "_")
