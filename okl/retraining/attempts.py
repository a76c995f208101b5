"""What was judged and not published, so that the same shards are not learnt again night after night."""

from __future__ import annotations

import json
from pathlib import Path

from okl.registry.model import RegisteredModel
from okl.retraining.lineages import Planned
from okl.store.places import Place
from okl.store.publishing import file_beside

FOLDER = "attempts"


class Attempts:
    """One small file for each challenger that was kept back, named by what decides it.

    place : of the shard store
    """

    def __init__(self, place: Place) -> None:
        self._folder = place / FOLDER

    def find(self, model: RegisteredModel, planned: Planned) -> str | None:
        """Why the same challenger was kept back before, None if it was not."""
        file = self._folder / f"{self._key(model, planned)}.json"
        if not file.is_file():
            return None
        try:
            reason = str(json.loads(file.read_text(encoding="utf-8"))["reason"])
        except (ValueError, KeyError, TypeError):  # then it is judged again
            return None
        return f"The same shards were learnt and judged before. {reason}"

    def keep(self, model: RegisteredModel, planned: Planned, reason: str) -> None:
        """Note that a challenger was kept back."""
        file = self._folder / f"{self._key(model, planned)}.json"
        if isinstance(file, Path):
            file.parent.mkdir(parents=True, exist_ok=True)
        with file_beside(file) as beside:
            beside.write_text(json.dumps({"reason": reason}, indent=1) + "\n", encoding="utf-8")

    def _key(self, model: RegisteredModel, planned: Planned) -> str:
        return model.identity(planned.judged(), model.head())[:32]
