"""All entrants, by system and name."""

from __future__ import annotations

from okl.bench import okl_entrants, other_entrants, sklearn_entrants
from okl.bench.entrants import Entrant
from okl.bench.sets import BenchSet

OWN = "okl"


def roster() -> list[Entrant]:
    """Every entrant: scikit-learn's first, okl's last."""
    return [*sklearn_entrants.entrants(), *other_entrants.entrants(), *okl_entrants.entrants()]


def systems() -> tuple[str, ...]:
    """Names of all systems."""
    return tuple(dict.fromkeys(entrant.system for entrant in roster()))


def entrants_on(found: BenchSet, wanted: tuple[str, ...]) -> list[Entrant]:
    """Those of some systems (all, if none is named) that are tried on a set."""
    return [entrant for entrant in roster() if entrant.takes(found) and (not wanted or entrant.system in wanted)]


def find(system: str, name: str, found: BenchSet) -> Entrant:
    """The entrant of this name that takes a set; KeyError if there is none."""
    for entrant in roster():
        if (entrant.system, entrant.name) == (system, name) and entrant.takes(found):
            return entrant
    raise KeyError(f"{system} {name} on {found.name}")
