"""The certificate of a tracker in words: what it lost beside models that change, a table of how many times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from okl.store.tables import Table
from okl.store.wording import number

PIECE_HEADER = (
    "Changes at most",
    "Comparator's loss",
    "Regret",
    "Regret at most",
    "At any rows, at most",
    "Changes at",
)


def piece_proof(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The proof of a tracker, None for other runs."""
    proof: Mapping[str, Any] = result.get("certificate") or {}
    return proof if proof.get("kind") == "tracking regret" else None


def piece_sentences(proof: Mapping[str, Any]) -> list[str]:
    """What was compared, and what came out."""
    if not proof.get("shown"):
        return [f"No regret is shown. {proof.get('reason')}"]
    windows, first = len(proof["borders"]) - 1, proof["comparisons"][0]
    return [
        f"Over {number(proof['rows'])} rows the mean of scores that was predicted with lost {number(proof['loss'])} by "
        f"the {proof['loss_name']} loss, and made {number(proof['mistakes'])} mistakes. It is compared with weights in "
        f"the ball of radius {number(proof['radius'])} of the same map that are fixed but for a number of changes, at "
        f"borders of {windows} windows. Beside the best that never change it lost {_than(first['regret'])}.",
        "No weights with so many changes at these borders make the regret larger than the fourth column says; none "
        "that change at any rows larger than the fifth, where a window with a change counts as if nothing was lost.",
    ]


def piece_table(proof: Mapping[str, Any]) -> Table | None:
    """A line for each number of changes, under PIECE_HEADER."""
    if not proof.get("shown"):
        return None
    return Table("Regret against models that change", [_line(one) for one in proof["comparisons"]])


def piece_facts(result: Mapping[str, Any]) -> list[list[str]]:
    """Names and texts of the same for a terminal."""
    proof = piece_proof(result)
    if proof is None:
        return []
    if not proof.get("shown"):
        return [["Regret", f"not shown: {proof.get('reason')}"]]
    told = [f"{number(one['regret'])} ({one['changes']})" for one in proof["comparisons"]]
    return [["Regret (changes)", f"{', '.join(told)}; of a loss of {number(proof['loss'])}"]]


def _line(one: Mapping[str, Any]) -> list[str]:
    names = ("comparator_loss", "regret", "regret_at_most", "regret_at_most_anywhere")
    rows = ", ".join(number(row + 1) for row in one["rows"]) or "-"
    return [number(one["changes"]), *(number(one[name]) for name in names), rows]


def _than(regret: float) -> str:
    return f"{number(abs(regret))} {'more' if regret >= 0 else 'less'}"
