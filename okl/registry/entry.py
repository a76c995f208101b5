"""An entry of a model's log: what happened, and the whole state after it."""

from __future__ import annotations

import getpass
import os
import platform
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from okl.registry.lineage import Lineage
from okl.registry.sealed import seal

Kind = Literal["publish", "promote", "rollback", "move", "prune"]
CHAMPION, PREVIOUS, CANDIDATE = "champion", "previous", "candidate"


@dataclass(frozen=True)
class Publication:
    """A version, as the entry that published it tells.

    version : number, from 1; folder : its name in the model's folder `versions`
    identity : digest of what decided it; files : bytes and sha256 of each, by path in the folder
    former_entry : number of the entry that published the version before; 0: none
    """

    version: int
    folder: str
    identity: str
    files: dict[str, dict[str, Any]]
    lineage: Lineage
    former_entry: int

    @property
    def size_bytes(self) -> int:
        """Of all its files."""
        return sum(int(file["bytes"]) for file in self.files.values())


@dataclass(frozen=True)
class State:
    """All that readers ask for first, after an entry.

    aliases : versions by alias; entries : numbers of the entries that published those versions, and former ones
    former : champions before this one, the last of them is the alias `previous`
    latest, latest_entry : number of the newest version, and of the entry that published it
    pruned_through, kept : versions up to that number have lost their files, but for those kept
    """

    aliases: Mapping[str, int] = field(default_factory=dict)
    entries: Mapping[str, int] = field(default_factory=dict)
    former: tuple[int, ...] = ()
    latest: int = 0
    latest_entry: int = 0
    pruned_through: int = 0
    kept: tuple[int, ...] = ()

    @property
    def champion(self) -> int | None:
        """The version that the alias names."""
        return self.aliases.get(CHAMPION)

    def is_pruned(self, version: int) -> bool:
        """Whether a version has lost its files."""
        return version <= self.pruned_through and version not in self.kept

    def with_champion(self, version: int, former: tuple[int, ...]) -> State:
        """With another champion and those before it; a candidate that became champion is none any more."""
        aliases = {name: one for name, one in self.aliases.items() if name not in (CHAMPION, PREVIOUS)}
        if aliases.get(CANDIDATE) == version:
            del aliases[CANDIDATE]
        aliases[CHAMPION] = version
        if former:
            aliases[PREVIOUS] = former[-1]
        return replace(self, aliases=aliases, former=former)


@dataclass(frozen=True)
class Entry:
    """One line of the log; number orders entries, `at` only informs.

    number : from 1, without gaps; state : after it; published : by kind publish; discarded : folders, by kind prune
    why, by, at : for people; before_sha256 : seal of the entry before; token : unlike any other's
    """

    number: int
    kind: Kind
    state: State
    published: Publication | None = None
    discarded: tuple[str, ...] = ()
    why: str = ""
    before_sha256: str = ""
    by: str = field(default_factory=lambda: _whoever())
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    sha256: str = ""

    def stored(self) -> bytes:
        """The bytes of its file."""
        return seal(asdict(self))

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> Entry:
        """Of what a sealed file holds; raises KeyError or TypeError if that is no entry."""
        given = {name: value for name, value in content.items() if name != "format_version"}
        state, published = given.pop("state"), given.pop("published")
        if published is not None:
            published = Publication(**{**published, "lineage": Lineage.from_stored(published["lineage"])})
        state = State(**{**state, "former": tuple(state["former"]), "kept": tuple(state["kept"])})
        return cls(**{**given, "state": state, "published": published, "discarded": tuple(given["discarded"])})


def _whoever() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = str(os.getuid())
    return f"{user}@{platform.node()}:{os.getpid()}"
