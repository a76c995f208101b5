"""Rows that are scored with each new champion, seen by whoever moves a champion by hand; nothing heavy is imported.

The event that such scoring waits for comes from the retraining, at its end, whoever has moved the champion before it.
"""

from __future__ import annotations

import os

from flows.stack.asking import get_json
from flows.stack.finding import live_stack
from okl.foundation.locations import okl_home
from okl.models.registry import registry_location


def rescoring(model: str, registry: str | None) -> str:
    """When rows are scored with the champion that was just chosen, and how at once; "" where none are deployed.

    Parameters
    ----------
    model : its name; registry : as given to the command, None for the usual one
    """
    place, configured = registry_location(registry), os.environ.get("PREFECT_API_URL")
    if configured:
        return rescoring_at(configured, model, place)
    stack = live_stack(okl_home())  # no server is waited for here: what was asked for is done, and this only a hint
    return rescoring_at(stack.url, model, place, f"PREFECT_API_URL={stack.url} prefect") if stack else ""


def rescoring_at(url: str, model: str, registry: str, prefect: str = "prefect") -> str:
    """The same of one server; registry : where the model lies; prefect : how to call Prefect's command."""
    found = get_json(f"{url}/deployments/name/okl-score/{model}")
    if not isinstance(found, dict):
        return ""
    settings = (found.get("parameters") or {}).get("settings") or {}
    if settings.get("model") != f"{model}@champion" or settings.get("registry") != registry:
        return ""
    return (
        f"{settings.get('source')} is scored with it when okl-retrain/{model} runs next; at once: "
        f"{prefect} deployment run okl-score/{model}"
    )
