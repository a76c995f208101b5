from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from scipy import stats

from okl.lifecycle.error_drift import ShardScores, compared, drift_of
from okl.lifecycle.retrain import retrain
from tests.lifecycle.shards import content, land
from tests.lifecycle.stories import champion, lineage, settings, shards


def scored(rows: int, wrong: int, fired: bool = False) -> ShardScores:
    return ShardScores(1, rows, wrong, wrong / rows, 0.5, fired=fired)


def rows_of_another_rule(table: pa.Table) -> pa.Table:
    """Return rows whose label depends on another input, so that the champion is no better than chance."""
    label = np.where(table["x2"].to_numpy() > 0, 1, -1)
    return table.set_column(table.schema.names.index("y"), "y", [label])


def compare_in_order(wrongs: list[int], rows: int) -> list[ShardScores]:
    past: list[ShardScores] = []
    for wrong in wrongs:
        past.append(compared(past, scored(rows, wrong)))
    return past


def test_the_deviation_is_that_of_fishers_test_in_units_of_the_daily_variation() -> None:
    past = [scored(1000, wrong) for wrong in (100, 130, 90, 120, 100, 110)]
    now = compared(past, scored(500, 90))
    by_chance = stats.fisher_exact([[90, 410], [650, 5350]], alternative="greater").pvalue
    rate = 650 / 6000
    variance = rate * (1 - rate)
    seen = np.mean(np.square(np.diff([0.1, 0.13, 0.09, 0.12, 0.1, 0.11]))) / (variance * 2 / 1000)
    taken = 1 + (0.1 * rate) ** 2 * (1 + 1 / 6) / (variance * (1 / 500 + 1 / 6000))
    degrees = 2 * 5 / 3
    counted = 12 - 2 * degrees
    unit = np.sqrt((degrees * seen + counted * taken) / (degrees + counted))
    assert unit > 1.2
    assert now.p_value == pytest.approx(float(stats.t.sf(stats.norm.isf(by_chance) / unit, degrees + counted)))
    assert now.past_rate == pytest.approx(rate)
    assert not now.fired
    assert compared(past, scored(500, 180)).fired


def test_without_changes_at_most_one_shard_in_a_thousand_fires_even_if_days_vary() -> None:
    random, fired, shards_seen = np.random.default_rng(5), 0, 0
    for spread in (0.0, 0.1, 0.2):
        for _ in range(20):
            rates = np.clip(0.2 * (1.0 + spread * random.standard_normal(30)), 0.01, 0.9)
            past = compare_in_order(random.binomial(600, rates).tolist(), 600)
            fired, shards_seen = fired + sum(one.fired for one in past), shards_seen + len(past)
    assert shards_seen == 1800
    assert fired <= stats.binom.isf(1e-4, shards_seen, 0.0015)  # seeded, so that it is one number: see the figures


def test_a_change_fires_once_and_the_comparison_restarts() -> None:
    random = np.random.default_rng(6)
    for _ in range(20):
        wrongs = [*random.binomial(600, 0.15, 12).tolist(), *random.binomial(600, 0.35, 8).tolist()]
        assert [index for index, one in enumerate(compare_in_order(wrongs, 600)) if one.fired] == [12]


def test_a_small_significant_increase_is_no_signal_and_neither_is_an_improvement() -> None:
    past = [scored(100_000, 10_000) for _ in range(10)]
    slightly = compared(past, scored(100_000, 11_000))
    assert stats.fisher_exact([[11_000, 89_000], [100_000, 900_000]], alternative="greater").pvalue < 1e-20
    assert not slightly.fired
    assert not compared(past, scored(100_000, 2_000)).fired


def test_one_earlier_shard_is_enough_for_a_large_change() -> None:
    past = [scored(2000, 450)]
    assert compared(past, scored(2000, 1340)).fired
    assert not compared(past, scored(2000, 600)).fired, "one day may differ from another one by a third"
    first = compared([], scored(100, 90))
    assert first.p_value is None
    assert drift_of({"day-1": first})["why"].startswith("Drift was not tested: ")


def test_a_return_to_the_old_relation_fires_although_errors_are_no_more_than_at_the_change() -> None:
    random = np.random.default_rng(7)
    for _ in range(20):
        wrongs = np.concatenate([random.binomial(600, rate, n) for rate, n in ((0.15, 6), (0.45, 1)) * 2])
        assert [index for index, one in enumerate(compare_in_order(wrongs.tolist(), 600)) if one.fired] == [6, 13]


def test_a_champion_that_stays_bad_after_a_signal_fires_once() -> None:
    wrongs = np.random.default_rng(8).binomial(600, [0.15] * 6 + [0.45] * 8)
    assert [index for index, one in enumerate(compare_in_order(wrongs.tolist(), 600)) if one.fired] == [6]


def test_the_signal_is_a_sentence_with_figures() -> None:
    past = [scored(1000, 100) for _ in range(6)]
    now = compared(past, scored(1000, 300))
    drift = drift_of({"day-1": past[0], "day-2": now})
    assert drift["found"]
    assert drift["why"].startswith("Drift: the champion is wrong on 30.0% of day-2, after 10.0% in the shards")
    assert drift["shards"]["day-2"]["rate"] == 0.3
    missed = drift_of({"day-1": past[0], "day-2": now}, limit=12.5)["why"]
    assert missed.startswith("Drift: the champion is off by more than 12.5 on 30.0% of day-2, after 10.0%")
    quiet = drift_of({"day-2": compared(past, scored(1000, 105))})
    assert not quiet["found"]
    assert not quiet["suspected"]
    assert quiet["why"].startswith("No drift: ")
    assert "No new row" in drift_of({})["why"]


def test_a_nonsignificant_increase_of_errors_is_not_called_equal() -> None:
    past = [scored(1000, 100), scored(1000, 120)]
    now = compared(past, scored(1000, 160))
    assert now.p_value is not None
    assert 0.001 < now.p_value < 0.05
    entry = drift_of({"day-3": now})
    assert (entry["found"], entry["suspected"]) == (False, True)
    assert entry["why"].startswith(
        "No significant drift: the champion is wrong on 16.0% of day-3, after 11.0% in the shards"
    )


def test_a_stream_that_changes_is_found_and_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    shards(tmp_path, 1, 2, 3)
    retrain(settings(tmp_path))
    shards(tmp_path, *range(4, 10))
    quiet = retrain(settings(tmp_path))
    assert not quiet["drift"]["found"]
    assert len(quiet["drift"]["shards"]) == 6
    land(tmp_path / "in", "day-10.parquet", content(10, flipped=True))
    found = retrain(settings(tmp_path, contradiction=False))
    assert found["drift"]["found"], found["drift"]
    assert "day-10.parquet" in found["drift"]["why"]
    assert [one["shard"] for one in found["history"]] == [f"day-{day:02d}.parquet" for day in range(4, 10)]


def test_labels_that_are_noise_are_quarantined_and_another_rule_is_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    rows = 1500
    shards(tmp_path, 1, 2, 3, rows=rows)
    retrain(settings(tmp_path))
    noise, other = content(4, rows), content(5, rows)
    mixed = np.random.default_rng(0).permutation(noise["y"].to_numpy())
    land(tmp_path / "in", "day-04.parquet", noise.set_column(noise.schema.names.index("y"), "y", [mixed]))
    land(tmp_path / "in", "day-05.parquet", rows_of_another_rule(other))
    result = retrain(settings(tmp_path))
    (bad,) = result["shards"]["rejected"]
    assert (bad["name"], bad["kinds"]) == ("day-04.parquet", ["unrelated"])
    assert "are unrelated to the inputs" in bad["reason"]
    assert abs(result["progressive"][1]["agreement"]) < 0.1
    assert [one["name"] for one in result["shards"]["learnt"]] == ["day-05.parquet"]
    assert champion(tmp_path).number == (2 if result["outcome"] == "published" else 1)
    assert retrain(settings(tmp_path))["shards"]["rejected"] == []
    released = retrain(settings(tmp_path, release=[bad["sha256"][:16]], publish_if="not worse", slice_margin=1.0))
    assert "day-04.parquet" in [one["name"] for one in released["shards"]["learnt"]]
    assert "day-04.parquet" in lineage(tmp_path) or released["outcome"] == "kept"


def test_noise_is_quarantined_where_a_model_of_it_predicts_one_class_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    linear = {"solver": "ridge", "kernel": "linear", "frequencies": None, "step_size": None, "order": None}

    def night(day: int, mixed: bool = False) -> None:
        rows = content(day, 1200)
        labels = np.where(rows["x0"].to_numpy() > 0.6, 1, -1)  # 27% are of the second class
        labels = np.random.default_rng(day).permutation(labels) if mixed else labels
        land(tmp_path / "in", f"day-{day:02d}.parquet", rows.set_column(rows.schema.names.index("y"), "y", [labels]))

    for day in (1, 2, 3):
        night(day)
    retrain(settings(tmp_path, train=linear))
    night(4, mixed=True)
    result = retrain(settings(tmp_path, train=linear))
    (bad,) = result["shards"]["rejected"]
    assert (bad["name"], bad["kinds"]) == ("day-04.parquet", ["unrelated"])
    assert "so is that of a model of this shard alone (+0.00)" in bad["reason"]
    assert champion(tmp_path).number == 1


def test_a_shard_without_one_of_the_classes_is_scored_and_learnt_by_a_batch_solver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    batch = {"solver": "c-svm", "C": 1.0, "step_size": None, "order": None, "frequencies": None}
    contract = {"label_distance": 1.0, "level": 1e-300}
    shards(tmp_path, 1, 2, 3, rows=200)
    retrain(settings(tmp_path, train=batch, contract=contract))
    whole = content(4, 200)
    land(tmp_path / "in", "day-04.parquet", whole.filter(pa.compute.less(whole["y"], 0)))
    result = retrain(settings(tmp_path, train=batch, contract=contract))
    assert result["progressive"][0]["agreement"] == 0.0  # no model of that shard alone
    assert [one["name"] for one in result["shards"]["learnt"]] == ["day-04.parquet"]
    assert result["outcome"] in ("kept", "published")


def test_a_signal_of_a_larger_change_excludes_an_earlier_smaller_one() -> None:
    slow = compare_in_order([round(1600 * rate) for rate in [0.11, 0.12, 0.11, 0.12, 0.16, 0.17, 0.89]], 1600)
    assert [one.together for one in slow if one.fired] == [1]
    similar = compare_in_order([round(1600 * rate) for rate in [0.11, 0.12, 0.11, 0.12, 0.16, 0.17, 0.19]], 1600)
    assert [one.together for one in similar if one.fired] == [3]


def test_several_shards_fire_together_where_one_is_not_significant() -> None:
    rates = [0.28, 0.30, 0.29, 0.45, 0.46, 0.44, 0.45]
    stream = compare_in_order([round(390 * rate) for rate in rates], 390)
    assert [one.fired for one in stream] == [False, False, False, False, True, False, False]
    assert stream[4].together == 2
    assert stream[4].past_rate == pytest.approx(0.29, abs=1e-3), "of the shards before the latest two"
    assert drift_of({"day-5": stream[4]})["why"].startswith(
        "Drift of the latest 2 shards: the champion is wrong on 45.9% of day-5, after 29.0% in the shards before"
    )
    smaller = compare_in_order([round(390 * rate) for rate in [0.28, 0.30, 0.29, 0.42, 0.43, 0.44, 0.45]], 390)
    assert [one.together for one in smaller if one.fired] == [3]
    moderate = compare_in_order([round(1000 * rate) for rate in [0.23, 0.22, 0.24, 0.23, 0.22, 0.24, 0.23, 0.34]], 1000)
    assert [one.fired for one in moderate] == [False] * 7 + [True]
    bad_day = compare_in_order([round(390 * rate) for rate in [0.28, 0.30, 0.29, 0.44, 0.30, 0.31]], 390)
    assert not any(one.fired for one in bad_day), "the shards after it are as before"


def test_one_large_earlier_shard_is_enough_within_a_few_nights() -> None:
    past = [scored(1400, 266)]
    for _ in range(4):
        past.append(compared(past, scored(850, 272)))
    assert [one.fired for one in past] == [False, False, True, False, False]


def test_a_rare_class_that_is_ranked_by_chance_is_drift_despite_equal_mistakes() -> None:
    def night(missed: int) -> ShardScores:
        return replace(scored(2400, 48), of_rare=48, rare_missed=missed)

    past: list[ShardScores] = []
    for missed in (14, 17, 12, 15):
        past.append(compared(past, night(missed)))
    assert not any(one.fired for one in past)
    bad = compared(past, night(33))
    assert (bad.fired, bad.rare, bad.rate) == (True, True, 33 / 48)
    assert not compared(past, scored(2400, 48)).fired, "of mistakes alone nothing is seen"
    why = drift_of({"night-6": bad}, rare="yes")["why"]
    assert why.startswith(
        "Drift: the champion gives 68.8% of the rows of 'yes' in night-6 a probability below the share of this class, "
        "after 30.2% in the shards before (p = "
    )
    plain = [scored(2400, 48) for _ in range(4)]  # written by an earlier okl, which did not count them
    assert not compared(plain, night(33)).fired


def test_a_night_with_rare_rows_independent_of_the_inputs_is_drift(root: Path) -> None:
    random = np.random.default_rng(3)
    train = {"solver": "logistic", "kernel": "linear", "frequencies": None, "step_size": None, "order": None}
    nightly = settings(root, train=train, ingest={"scale": "standard"})
    for day in range(1, 5):
        inputs = random.standard_normal((2, 4000))
        signal = np.zeros(4000) if day == 4 else inputs[0]
        positive = random.random(4000) < 1.0 / (1.0 + np.exp(4.5 - 1.5 * signal)) * (2.0 if day == 4 else 1.0)
        labels = np.where(positive, "yes", "no")
        land(root / "in", f"{day}.parquet", pa.table({"x0": inputs[0], "x1": inputs[1], "y": labels}))
        serving = None if day == 1 else champion(root).load()
        result = retrain(nightly)
        assert result["drift"]["found"] == (day == 4), result["drift"]["why"]
    assert serving is not None
    assert "of the rows of 'yes' in 4.parquet a probability below the share of this class" in result["drift"]["why"]
    counts, (row,) = serving.schema.class_counts, result["progressive"]
    rare = pq.read_table(root / "in" / "4.parquet").filter(pc.field("y") == "yes")
    missed = int((serving.predict_proba(rare)[:, 1] < counts[1] / sum(counts)).sum())
    reserved = rare.num_rows - row["of_rare"]
    assert 0 < reserved < 0.4 * rare.num_rows
    assert missed - reserved <= row["rare_missed"] <= missed < rare.num_rows
