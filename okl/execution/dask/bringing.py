"""Extensions for workers: files that ran here run there before any work that needs them; on newcomers, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distributed import WorkerPlugin

from okl.extensions import SourceFile, adopt, files

NAME = "okl-extensions"


class ExtensionFiles(WorkerPlugin):  # type: ignore[misc]  # Dask has no types
    """Has a worker run files. sent : by module, see okl.extensions"""

    def __init__(self, sent: Mapping[str, SourceFile]) -> None:
        self.sent = dict(sent)

    def setup(self, worker: Any) -> None:
        """Of a worker that is there, or has come."""
        adopt(self.sent)


class Bringing:
    """Sees to it that workers have what this process has. client : of their scheduler"""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._sent: set[str] = set()

    def bring(self) -> None:
        """Send the files that have run here since the last time; waits until all workers have run them."""
        here = files()
        if set(here) - self._sent:
            self._client.register_plugin(ExtensionFiles(here), name=f"{NAME}-{'-'.join(sorted(here))[-64:]}")
            self._sent |= set(here)
