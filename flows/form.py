"""Forms of the flows in Prefect's pages: the fields that a run needs come first, all others in one closed group."""

from __future__ import annotations

from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from okl.foundation.settings import ExecutionSettings

GROUP = "advanced"
TARGET = "target"  # of `ingest`, shown beside the data
FIRST: dict[str, tuple[str, ...]] = {
    "okl_train": ("data", TARGET),
    "okl_compare": ("data", TARGET),
    "okl_retrain": ("name", "source", TARGET, "registry"),
    "okl_score": ("model", "source", "out", "registry"),
    "okl_reproduce": ("table", "data"),
}
"""Fields of the settings that come first in the form of a flow."""


def grouped(values: dict[str, Any], flow: str) -> dict[str, Any]:
    """Return settings as the form of a flow shows them: the first fields, and the others in the group.

    >>> grouped({"data": "/rows.csv", "passes": 2, "ingest": {"target": "y"}}, "okl_train")
    {'data': '/rows.csv', 'target': 'y', 'advanced': {'passes': 2}}
    """
    rest = dict(values)
    if "source" in rest and isinstance(train := rest.get("train"), dict):
        rest["train"] = {name: value for name, value in train.items() if name != "data"}
    first = {name: rest.pop(name) for name in FIRST[flow] if name in rest}
    if TARGET in FIRST[flow] and TARGET in (ingest := dict(rest.get("ingest") or {})):
        first[TARGET] = ingest.pop(TARGET)
        rest["ingest"] = ingest
        if not ingest:
            del rest["ingest"]
    return first | ({GROUP: rest} if rest else {})


def flat(values: Any) -> Any:
    """Return settings as okl takes them, whatever the form has grouped; anything else than a mapping as it is.

    >>> flat({"data": "/rows.csv", "target": "y", "advanced": {"passes": 2}})
    {'data': '/rows.csv', 'passes': 2, 'ingest': {'target': 'y'}}
    """
    if not isinstance(values, dict):
        return values
    own = dict(values)
    rest, target = own.pop(GROUP, None) or {}, own.pop(TARGET, None)
    settings = own | rest if isinstance(rest, dict) else own | {GROUP: rest}  # which the settings refuse
    if target:
        settings["ingest"] = dict(settings.get("ingest") or {}) | {TARGET: target}
    if "source" in settings and isinstance(train := settings.get("train"), dict):
        settings["train"] = {
            "data": settings["source"]
        } | train  # which training settings require, and retraining ignores
    return settings


def _in_order(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields with their positions in a form: those of the process and its workers come last."""
    names = sorted(fields, key=lambda name: name in ExecutionSettings.model_fields)
    return {name: fields[name] | {"position": at} for at, name in enumerate(names)}


class Form:
    """Annotation of the settings of a flow, a key of `FIRST`: groups their schema, and accepts them grouped or flat."""

    def __init__(self, flow: str) -> None:
        self.first = FIRST[flow]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the settings, which takes grouped values too."""
        return core_schema.no_info_before_validator_function(flat, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the schema with the group; patterns hold the rules of the same fields when they are given flat."""
        reference = handler(schema)
        form = handler.resolve_ref_schema(reference)
        fields: dict[str, Any] = form["properties"]
        if TARGET in self.first:
            text = "name of the column to predict; none: y, or that of the data set"
            fields[TARGET] = {"title": "Target", "type": "string", "description": text}
        rest = {name: field for name, field in fields.items() if name not in self.first}
        if "train" in rest and "source" in fields:
            train = handler.resolve_ref_schema(rest["train"])
            train["patternProperties"] = {"^data$": train["properties"].pop("data")}
            del train["required"]  # only data
            train["properties"] = _in_order(train["properties"])
        group = {"title": "Settings", "type": "object", "properties": _in_order(rest), "additionalProperties": False}
        first = {name: fields[name] for name in self.first}
        first[GROUP] = {
            "title": "Advanced",
            "description": "all other settings; none: the defaults",
            "anyOf": [{"type": "null"}, group],
            "default": None,
        }
        form["properties"] = {name: field | {"position": at} for at, (name, field) in enumerate(first.items())}
        form["patternProperties"] = {f"^{name}$": field for name, field in rest.items()}
        if required := [name for name in form.pop("required", []) if name in self.first]:
            form["required"] = required
        return reference
