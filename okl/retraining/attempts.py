"""What was judged and not published: not learnt again night after night, and counted, as each is a look at the rows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from okl.registry.model import RegisteredModel
from okl.retraining.latest import FOLDER
from okl.retraining.lineages import Planned
from okl.store.places import Place
from okl.store.publishing import write_whole


class Attempts:
    """One small file for each challenger that was kept back, named by the champion of then and what decides it.

    place : of the shard store; champion : number of its version, None before the first
    """

    def __init__(self, place: Place, champion: int | None) -> None:
        self._folder, self._champion = place / FOLDER, f"{champion or 0:08}-"

    def looks(self) -> int:
        """How many challengers of this champion were kept back."""
        if isinstance(self._folder, Path):
            names = [file.name for file in self._folder.glob("*.json")]
        else:
            names = [file.name for file, _ in self._folder.files() if file.suffix == ".json"]
        return sum(name.startswith(self._champion) for name in names)

    def find(self, model: RegisteredModel, planned: Planned) -> str | None:
        """Why the same challenger was kept back before, None if it was not."""
        file = self._folder / f"{self._champion}{self._key(model, planned)}.json"
        if not file.is_file():
            return None
        try:
            reason = str(json.loads(file.read_text(encoding="utf-8"))["reason"])
        except (ValueError, KeyError, TypeError):  # then it is judged again
            return None
        return f"The same shards were learnt and judged before. {reason}"

    def page(self, model: RegisteredModel, planned: Planned) -> Place:
        """Where the report of a challenger that was kept back lies."""
        return self._folder / f"{self._champion}{self._key(model, planned)}.html"

    def keep(self, model: RegisteredModel, planned: Planned, reason: str, page: str) -> None:
        """Note that a challenger was kept back, and its report."""
        write_whole(self.page(model, planned), page)
        content = json.dumps({"reason": reason, "at": datetime.now(UTC).isoformat(timespec="seconds")}, indent=1) + "\n"
        write_whole(self._folder / f"{self._champion}{self._key(model, planned)}.json", content)

    def _key(self, model: RegisteredModel, planned: Planned) -> str:
        return model.identity(planned.judged(), model.head())[:32]


def taken_back(model: RegisteredModel, planned: Planned) -> str | None:
    """Why what is planned is not learnt again: it is a version already, and somebody has chosen another champion.

    None where it is no version, or the champion
    """
    found = model.find(planned.lineage)
    if found is None or found.number == model.state().champion:
        return None
    return (
        f"The same shards were learnt before, as {found}, and the champion was moved to another version since. "
        f"Promote it again (okl models promote {model.name} {found.number}), or wait for new shards."
    )
