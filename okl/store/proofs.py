"""The certificate of regret of a run in words: sentences and a table for the page, two lines for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from okl.store.piecewording import PIECE_HEADER, piece_facts, piece_proof, piece_sentences, piece_table
from okl.store.tables import Table
from okl.store.wording import number

HEADER = ("Rows", "Regret", "A row", "Bound", "Bound / regret", "Loss", "Comparator's gap")


class RegretSection(NamedTuple):
    """What a report says of regret: sentences, and a table under its header, None where there is none."""

    sentences: list[str]
    table: Table | None
    header: Sequence[str] = HEADER


def regret_section(result: Mapping[str, Any]) -> RegretSection | None:
    """What is proved about the regret of a run, or why nothing is; None for a run that was not asked."""
    if (pieces := piece_proof(result)) is not None:
        return RegretSection(piece_sentences(pieces), piece_table(pieces), PIECE_HEADER)
    proof = _regret_of(result)
    if proof is None:
        return None
    if not proof.get("shown"):
        return RegretSection([f"No regret is shown. {proof.get('reason')}"], None)
    sentences = [_lost(proof), _bounded(proof), *filter(None, [_in_kernel_space(proof)])]
    return RegretSection(sentences, Table("Regret at each horizon", [_row(one) for one in proof["horizons"]]))


def regret_facts(result: Mapping[str, Any]) -> list[list[str]]:
    """Names and texts of the same for a terminal."""
    proof = _regret_of(result)
    if proof is None:
        return piece_facts(result)
    if not proof.get("shown"):
        return [["Regret", f"not shown: {_uncapitalised(str(proof.get('reason')))}"]]
    grown = proof.get("growth_exponent")
    growth = f", grows as rows^{grown:.2f}" if grown is not None else ""
    facts = [
        [
            "Regret",
            f"{number(proof['regret'])}, at most {number(proof['regret_at_most'])} "
            f"({number(proof['average_regret'])} a row; bound {number(proof['bound'])}{growth})",
        ]
    ]
    if kernel := proof.get("kernel_bound"):
        worth = "vacuous, more than the whole loss" if kernel["vacuous"] else f"probability {kernel['probability']:g}"
        facts.append(["Kernel bound", f"{number(kernel['bound'])} by Theorem 1 ({worth})"])
    return facts


def regret_horizons(result: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The horizons that logarithmic axes can show; none if there are fewer than two."""
    proof = _regret_of(result) or {}
    shown = [one for one in proof.get("horizons") or [] if one["regret"] > 0.0]
    return shown if len(shown) > 1 else []


def growth_of(result: Mapping[str, Any]) -> float | None:
    """The power of the rows that regret grew with, None where it was not above 0 everywhere."""
    return (_regret_of(result) or {}).get("growth_exponent")


def _regret_of(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    proof: Mapping[str, Any] = result.get("certificate") or {}
    return proof if proof.get("kind") == "regret" else None


def _lost(proof: Mapping[str, Any]) -> str:
    regret, comparator = proof["regret"], proof["comparator"]
    more = f"{number(abs(regret))} {'more' if regret >= 0 else 'less'}"
    # a learner that follows rows as they change may beat any weights that stay
    drift = "" if regret >= 0 else " Rows that change as they go by favour whoever follows them."
    return (
        f"Over {number(proof['rows'])} rows the learner lost {number(proof['loss'])}: {more} than the best fixed "
        f"weights that were found in its ball of radius {number(comparator['radius'])}, "
        f"{number(abs(proof['average_regret']))} a row. No weights of that ball are better than these by more than "
        f"{_percent(comparator['relative_gap'])} of their loss: the regret is "
        f"{number(proof['regret_at_most'])} at most.{drift}"
    )


def _bounded(proof: Mapping[str, Any]) -> str:
    grown, regret = proof.get("growth_exponent"), proof["regret"]
    if grown is None:
        growth = "How regret grew is not told, as it was not above zero at two horizons or more."
    else:
        share = "falls" if grown < 1.0 else "does not fall"
        growth = f"Regret grew with the rows to the power of {grown:.3f}, so that what a row adds to it {share}."
    if proof["bound"] is None:
        return f"No bound is claimed for settings like these. {growth}"
    times = f", {number(proof['bound'] / regret)} times as much" if regret > 0 else ""
    return f"Steps like these cannot lead to more regret than {number(proof['bound'])}{times}. {growth}"


def _in_kernel_space(proof: Mapping[str, Any]) -> str:
    kernel = proof.get("kernel_bound")
    if not kernel:
        return ""
    told = (
        f"Beside functions of the kernel itself, Theorem 1 of Lu et al. (JMLR 17, 2016) allows a regret of "
        f"{number(kernel['bound'])}, where the sum of coefficients is {number(kernel['l1_norm'])} and kernel values "
        f"are off by {number(kernel['epsilon'])} at most (probability {kernel['probability']:g})"
    )
    if kernel["vacuous"]:
        return f"{told}. That bound is vacuous: the learner's whole loss is {number(proof['loss'])}."
    return f"{told}."


def _row(one: Mapping[str, Any]) -> list[str]:
    ratio = number(one["bound"] / one["regret"]) if one["regret"] > 0 and one["bound"] is not None else "-"
    figures = [number(one[name]) for name in ("regret", "average_regret", "bound")]
    return [number(one["rows"]), *figures, ratio, number(one["loss"]), _percent(one["comparator"]["relative_gap"])]


def _percent(share: float) -> str:
    return f"{100 * share:.2g}%"


def _uncapitalised(text: str) -> str:
    return text[:1].lower() + text[1:]
