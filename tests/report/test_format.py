"""The values that a run chose, as described in the summary, on the page and in markdown."""

from __future__ import annotations

from typing import Any

import pytest

from okl.report.format import TERMINAL, certificate_values, chosen_facts, model_sentence
from okl.report.sentences import warning_sentences
from okl.report.training import html_report, markdown_report, text_summary
from tests.report.results import made_result, without_pictures

LED = "of the expert that leads"
STEP = {"step_size": 0.5, "step_size_reason": "as given"}
WIDE = {"bandwidth": 3.0, "bandwidth_reason": LED}
CHOSEN: dict[str, tuple[str, dict[str, Any], str]] = {
    "a kernel leads": (
        "fogd",
        {"maps": 11, **WIDE, "inputs": "standardised", **STEP},
        "Best of 11 feature maps compared during training by fogd: the Gaussian kernel of bandwidth 3 on standardised "
        "inputs, step size 0.5000.",
    ),
    "the linear map leads": (
        "fogd",
        {"maps": 6, "map": "linear", "map_reason": LED, **STEP},
        "Best of 6 feature maps compared during training by fogd: the linear map, step size 0.5000.",
    ),
    "the linear map led a sample": (
        "fogd",
        {"map": "linear", **STEP},
        "The fogd model is linear, step size 0.5000: the linear map was the best of the experts on a sample.",
    ),
    "frequencies": (
        "fogd",
        WIDE | STEP,
        "The fogd model is linear in 400 random frequencies of the Gaussian kernel of bandwidth 3, step size 0.5000.",
    ),
    "a full budget": (
        "rbp",
        {**WIDE, "budget": 50, "support_vectors": 50},
        "The rbp model is a kernel expansion with 50 support vectors (the whole budget) and the Gaussian kernel of "
        "bandwidth 3.",
    ),
    "a budget not full": (
        "rbp",
        {"budget": 50, "support_vectors": 20},
        "The rbp model is a kernel expansion with 20 support vectors (of a budget of 50) and the Gaussian kernel.",
    ),
    "no budget": (
        "perceptron",
        {"support_vectors": 1234},
        "The perceptron model is a kernel expansion with 1,234 support vectors (no budget: every row with an update) "
        "and the Gaussian kernel.",
    ),
    "a rank": (
        "nogd",
        {"landmarks": 50, "rank": 8, "rank_reason": "no more can be kept", **STEP},
        "The nogd model is linear in 8 Nystrom features of 50 landmarks with the Gaussian kernel, step size 0.5000 "
        "(rank 8: no more can be kept).",
    ),
    "least squares over landmarks": (
        "ridge",
        {**WIDE, "n_landmarks": 2048, "penalty": 0.25, "penalty_reason": "least leave-one-out error"},
        "The ridge model is a kernel expansion on 2,048 landmarks with the Gaussian kernel of bandwidth 3, solved "
        "directly, with penalty 0.2500: least leave-one-out error.",
    ),
    "least squares by iterations": (
        "falkon",
        {**WIDE, "n_landmarks": 8192, "iteration": 5, "penalty": 0.25, "penalty_reason": "as given"},
        "The falkon model is a kernel expansion on 8,192 landmarks with the Gaussian kernel of bandwidth 3: iteration "
        "5, of the least error on held-out training rows, with penalty 0.2500 (as given).",
    ),
    "iterations without held-out rows": (
        "falkon",
        {**WIDE, "n_landmarks": 8, "iteration": 5, "held_out_rows": 0, "penalty": 0.25, "penalty_reason": "as given"},
        "The falkon model is a kernel expansion on 8 landmarks with the Gaussian kernel of bandwidth 3: iteration 5, "
        "the last one, because no training rows were held out, with penalty 0.2500 (as given).",
    ),
    "least squares in cells": (
        "local",
        {**WIDE, "cells": 1024, "partitions": 4, "left_out_rows": 900, "penalty": 0.25, "penalty_reason": "as given"},
        "The local model has an expansion of the Gaussian kernel of bandwidth 3 in each of 1,024 cells, averaged over "
        "4 partitions, solved exactly, with penalty 0.2500 (as given); leave-one-out errors are those of 900 training "
        "rows.",
    ),
    "least squares in one cell": (
        "local",
        {**WIDE, "cells": 1, "partitions": 1, "left_out_rows": 20, "penalty": 0.25, "penalty_reason": "as given"},
        "The local model is an expansion of the Gaussian kernel of bandwidth 3 on all rows, which are one cell, solved "
        "exactly, with penalty 0.2500 (as given); leave-one-out errors are those of 20 training rows.",
    ),
    "too few landmarks": (
        "nogd",
        {"landmarks": 20, "rank": 0, "rank_reason": "20 of 50 support vectors so far"},
        "The nogd model is a kernel expansion with 20 support vectors and the Gaussian kernel: these are too few for a "
        "feature map.",
    ),
}


def result_of(solver: str, chosen: dict[str, Any]) -> dict[str, Any]:
    result = without_pictures(made_result("binary", ("no", "yes"), skill=0.0))
    return result | {"chosen": chosen, "settings": result["settings"] | {"solver": solver}}


def test_the_map_of_an_extension_is_named() -> None:
    result = result_of("fogd", WIDE | STEP)
    result["settings"] |= {"map": "binning", "kernel": "laplacian"}
    assert model_sentence(result) == (
        "The fogd model is linear in the 800 columns of the map binning of the Laplacian kernel of bandwidth 3, "
        "step size 0.5000."
    )


@pytest.mark.parametrize("name", CHOSEN)
def test_report_describes_the_model_in_one_sentence(name: str) -> None:
    solver, chosen, sentence = CHOSEN[name]
    result = result_of(solver, chosen)
    assert model_sentence(result) == sentence
    assert sentence in html_report(result)
    assert sentence in markdown_report(result)


@pytest.mark.parametrize("name", CHOSEN)
def test_report_lists_every_chosen_value_with_its_reason_and_terminal_the_main_ones(name: str) -> None:
    solver, chosen, _ = CHOSEN[name]
    facts, summary = dict(chosen_facts(chosen)), text_summary(result_of(solver, chosen), verbose=True)
    assert len(facts) == len([key for key in chosen if not key.endswith("_reason")])
    fact_text = " ".join(facts.values())
    assert all(reason in fact_text for key, reason in chosen.items() if key.endswith("_reason"))
    main = chosen_facts(chosen, TERMINAL)
    only_in_report = {"maps", "budget", "iteration", "held_out_rows", "left_out_rows"}
    assert {key.removesuffix("_reason") for key in chosen} - only_in_report <= set(TERMINAL)
    for label, text in main:
        assert any(line.split("  ", 1)[0] == label and line.endswith(text) for line in summary.splitlines())


def test_advice_depends_on_the_solver() -> None:
    advice = {
        name: warning_sentences(result_of(*CHOSEN[name][:2]))[0]
        for name in ("a full budget", "no budget", "frequencies")
    }
    assert advice["a full budget"].endswith("or try another bandwidth or a larger budget.")
    assert advice["no budget"].endswith("try another bandwidth, fogd or nogd.")
    assert advice["frequencies"].endswith("try another bandwidth, step size or class weights.")
    without_steps = warning_sentences(result_of("pegasos", CHOSEN["frequencies"][1]))[0]
    assert without_steps.endswith("try another bandwidth.")


def test_result_without_solver_has_no_model_sentence() -> None:
    assert model_sentence({"chosen": {"rank": 3}}) == ""


def test_a_gap_is_relative_to_the_optimum_and_states_its_evidence() -> None:
    proof = {"kind": "gap over all rows", "gap": 0.0075, "relative_gap": 0.026, "rows_sampled": 207, "exact": True}
    settings = {"solver": "wolfe", "kernel": "gaussian", "frequencies": 400}
    proved = model_sentence({"settings": settings, "certificate": proof})
    assert proved.endswith("is within 0.0075 of the optimum, 2.6% of its value (proved over all rows).")
    sampled = model_sentence({"settings": settings, "certificate": proof | {"confidence": 0.95}})
    assert sampled.endswith("of the optimum, 2.6% of its value (95% confidence, 207 sampled rows).")
    assert certificate_values(proof | {"replicates": 0, "replicate_rows": 0}) == proof
    assert "(--certify)" in model_sentence({"settings": settings | {"solver": "pegasos"}})
