from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import okl
from okl.foundation.errors import ConfigError, ConflictError, DataError, RegistryError
from okl.foundation.locations import place_of
from okl.lifecycle.report import latest_attempts
from okl.lifecycle.retrain import RETRAIN_STAGES, RetrainingRun, retrain
from okl.lifecycle.settings import RetrainSettings
from okl.lifecycle.shard_store import ShardStore
from okl.lifecycle.versions import publish_trained
from okl.models.registry import Registry
from okl.models.registry_descriptions import describe_model, describe_one
from okl.report.explanation import explanation_text
from okl.report.format import number
from okl.report.model_listing import attempts_text, model_text, version_text
from okl.report.retraining import points_of, reserved_figure, summary_text
from okl.runs.api import train
from okl.runs.evaluate import EvaluateSettings, evaluate_model
from okl.solvers.settings import TrainSettings
from tests.lifecycle.shards import ROWS, content, land
from tests.lifecycle.stories import arrays, champion, lineage, refused_by_both, settings, shards


def test_new_shards_are_learnt_and_published_and_without_any_the_run_ends(root: Path) -> None:
    shards(root, 1, 2, 3)
    first = retrain(settings(root, publish_if="better"))
    assert (first["outcome"], first["version"], first["parent"]) == ("published", 1, None)
    assert "better than the majority class" in first["reason"]
    again = retrain(settings(root))
    assert (again["outcome"], again["reason"], again["version"]) == ("nothing new", "No shard is new.", None)
    shards(root, 4, 5)
    second = retrain(settings(root))
    assert (second["outcome"], second["version"], second["parent"]) == ("published", 2, 1)
    assert [one["shard"] for one in second["progressive"]] == ["day-04.parquet", "day-05.parquet"]
    assert all(one["error"] < one["constant"] for one in second["progressive"])
    assert sorted(lineage(root)) == [f"day-{day:02d}.parquet" for day in range(1, 6)]
    assert second["judged_on"] == [f"day-{day:02d}.parquet" for day in range(1, 6)]  # two new, three previous shards
    files = champion(root).folder
    assert sorted(path.name for path in files.iterdir()) == [
        "model",
        "report.html",
        "report.md",
        "result.json",
        "state",
    ]
    assert len(Registry(root / "registry").model("m").versions()) == 2


def test_shards_learnt_night_by_night_are_learnt_as_at_once(root: Path) -> None:
    for days in ((1, 2), (3,), (4, 5)):
        shards(root, *days)
        assert retrain(settings(root))["outcome"] == "published"
    nightly, counts = arrays(root), champion(root).load().schema.class_counts
    backfill = settings(root, name="b", registry=str(root / "other"), max_shards=2)
    first = retrain(backfill)
    while first["outcome"] == "published":
        first = retrain(backfill)
    at_once = Registry(root / "other").model("b").version().load()
    assert first["outcome"] == "nothing new"
    # scaling is that of the first shards: two here, and five there
    assert at_once.schema.features == champion(root).load().schema.features
    shards_read = ShardStore(root / "registry" / "m" / "data").accepted()
    assert sum(record.train_rows for record in shards_read) == sum(counts)
    two = settings(root, name="m", registry=str(root / "third"), source=str(root / "two"))
    for day in (1, 2):
        land(root / "two", f"day-{day:02d}.parquet", content(day))
    assert retrain(two)["outcome"] == "published"
    for day in (3, 4, 5):
        land(root / "two", f"day-{day:02d}.parquet", content(day))
    assert retrain(two)["outcome"] == "published"
    other = Registry(root / "third").model("m").version().load()
    for key, array in nightly.items():
        np.testing.assert_array_equal(other.predictor.arrays()[key], array)


def test_flipped_labels_are_caught_before_they_are_learnt_and_can_be_released(root: Path) -> None:
    shards(root, 1, 2, 3)
    retrain(settings(root))
    shards(root, 4, flipped=True)
    shards(root, 5)
    result = retrain(settings(root))
    assert result["outcome"] == "published"
    (bad,) = result["shards"]["rejected"]
    assert (bad["name"], bad["kinds"]) == ("day-04.parquet", ["contradiction"])
    assert "day-04.parquet" not in lineage(root)
    assert retrain(settings(root))["outcome"] == "nothing new"
    (root / "in" / "day-04.parquet").unlink()  # its rows are in the store since it was accepted
    releasing = settings(root, release=[bad["sha256"][:16]])
    released = retrain(releasing)
    assert [one["name"] for one in released["shards"]["learnt"]] == ["day-04.parquet"]
    assert released["how"] == "continued with 1 new shards"
    assert released["progressive"][0]["contradicts"]
    assert retrain(releasing)["outcome"] == "nothing new", (
        "a run that is tried again, or a deployment that keeps asking"
    )


def test_a_bad_shard_stops_the_others_only_on_request(root: Path) -> None:
    shards(root, 1, 2)
    (root / "in" / "day-03.parquet").write_bytes(b"PAR1 and then nothing")
    result = retrain(settings(root))
    assert (result["outcome"], [one["kinds"] for one in result["shards"]["rejected"]]) == (
        "published",
        [["unreadable"]],
    )
    shards(root, 4)
    for _ in range(2):  # again, as long as the file exists
        with pytest.raises(DataError, match="on_bad = stop"):
            retrain(settings(root, on_bad="stop"))
    assert champion(root).number == 1
    (root / "in" / "day-03.parquet").unlink()
    assert retrain(settings(root, on_bad="stop"))["version"] == 2


def test_shards_of_a_rejected_challenger_are_not_learnt_again(root: Path) -> None:
    shards(root, 1, 2)
    retrain(settings(root))
    shards(root, 3)
    hard = settings(root, publish_if="better", margin=0.5)
    kept = retrain(hard)
    assert (kept["outcome"], kept["version"]) == ("kept", None)
    assert "not better than the champion by the margin of 0.5" in kept["reason"]
    again = retrain(hard)
    assert (again["outcome"], again["how"]) == ("judged before", None)
    assert kept["reason"] in again["reason"]
    newest, first = latest_attempts(Registry(root / "registry").model("m"))
    assert (newest["outcome"], newest["reason"], newest["page"]) == ("kept", kept["reason"], kept["report"])
    assert (newest["champion"], first["version"], first["champion"]) == (1, 1, None)
    assert Path(first["page"]).is_file()
    assert first["at"] <= newest["at"]
    long = newest | {"reason": "why " * 150}
    assert f"kept     {'why ' * 99}why…\n  report: {kept['report']}" in attempts_text([long]), "in full in the report"
    assert first["reason"] not in model_text(describe_model(Registry(root / "registry").model("m"))), "an attempt"
    shards(root, 4)
    assert [one["name"] for one in retrain(hard)["shards"]["learnt"]] == ["day-03.parquet", "day-04.parquet"]
    assert retrain(settings(root))["outcome"] == "published"  # by another rule
    assert sorted(lineage(root)) == [f"day-{day:02d}.parquet" for day in range(1, 5)]


def test_rolled_back_shards_are_not_learnt_again_without_new_ones(root: Path) -> None:
    shards(root, 1, 2)
    retrain(settings(root))
    shards(root, 3)
    assert retrain(settings(root))["version"] == 2
    model = Registry(root / "registry").model("m")
    model.rollback(why="scores went wild")
    again = retrain(settings(root))
    assert (again["outcome"], again["version"], again["how"], again["parent"]) == ("judged before", None, None, 1)
    assert "in m@2" in again["reason"]
    assert "okl models promote m 2" in again["reason"]
    assert "rejected challenger" not in again["reason"]
    assert model.state().champion == 1
    shards(root, 4)
    assert retrain(settings(root))["version"] == 3


def test_a_rejected_shard_is_not_new_after_a_rollback(root: Path) -> None:
    shards(root, 1, 2)
    retrain(settings(root))
    shards(root, 3)
    assert retrain(settings(root))["version"] == 2
    shards(root, 4)
    hard = settings(root, publish_if="better", margin=0.5)
    assert retrain(hard)["outcome"] == "kept"
    model = Registry(root / "registry").model("m")
    model.rollback()
    for _ in range(2):
        again = retrain(hard)
        assert (again["outcome"], again["version"], again["parent"]) == ("judged before", None, 1)
        assert (
            "No file is new: these shards were trained on before, in m@2, which is no longer the champion, or in a "
            "rejected challenger (day-04.parquet). Add a new file, or use" in again["reason"]
        )
    shards(root, 5)
    assert retrain(settings(root))["version"] == 3
    assert sorted(lineage(root)) == [f"day-{day:02d}.parquet" for day in range(1, 6)]


def test_shards_rolled_back_twice_are_not_learnt_again_in_one_step(root: Path) -> None:
    for days in ((1, 2), (3,), (4,)):
        shards(root, *days)
        retrain(settings(root))
    model = Registry(root / "registry").model("m")
    assert model.state().champion == 3
    model.rollback()
    model.rollback()
    again = retrain(settings(root))
    assert (again["outcome"], again["version"], again["parent"]) == ("judged before", None, 1)
    assert "in m@3" in again["reason"]
    assert model.state().champion == 1
    shards(root, 5)
    assert retrain(settings(root))["version"] == 4
    assert sorted(lineage(root)) == [f"day-{day:02d}.parquet" for day in range(1, 6)]


def run_before_publication(root: Path) -> RetrainingRun:
    """Return a run that has a challenger for the first champion, and has not published it yet."""
    shards(root, 1, 2)
    retrain(settings(root))
    shards(root, 3)
    slow = RetrainingRun(settings(root))
    for stage in RETRAIN_STAGES[:-2]:
        slow.perform_stage(stage)
    return slow


def test_a_run_overtaken_by_a_publication_and_its_rollback_publishes_nothing(root: Path) -> None:
    slow = run_before_publication(root)
    assert retrain(settings(root))["version"] == 2
    Registry(root / "registry").model("m").rollback()
    assert slow.publish() == {"outcome": "judged before"}
    slow.report()
    slow.close()
    assert (slow.result()["outcome"], slow.result()["version"], champion(root).number) == ("judged before", None, 1)


def test_a_pinned_champion_stays_until_it_is_released_and_a_dry_run_still_compares(root: Path) -> None:
    slow = run_before_publication(root)
    model = Registry(root / "registry").model("m")
    model.pin(why="audit")
    with pytest.raises(ConflictError, match="alias pinned of m is now m@1, not nothing"):
        slow.publish()  # the run began before the pin
    slow.close()
    shards(root, 4)
    night = retrain(settings(root))
    assert (night["outcome"], night["version"]) == ("pinned", None)
    assert night["reason"].startswith("m@1 is pinned: nothing was trained (2 new shards waiting).")
    assert [one["shard"] for one in night["progressive"]] == ["day-03.parquet", "day-04.parquet"], "still scored"
    assert retrain(settings(root, dry_run=True))["decision"] is not None
    model.pin(release=True)
    released = retrain(settings(root))
    assert (released["outcome"], released["version"], released["parent"]) == ("published", 2, 1)
    assert len(lineage(root)) == 4
    model.pin()
    model.rollback()
    assert model.state().aliases == {"champion": 1, "pinned": 1}, "the pin moves with the champion"
    shards(root, 5)
    assert retrain(settings(root))["outcome"] == "pinned"


def begin_drift(root: Path, rows: int) -> tuple[RetrainSettings, dict[str, Any]]:
    """Run two similar nights and a third one with inverted labels; each model is trained on the newest file."""
    train = {"solver": "ridge", "frequencies": None, "step_size": None, "order": None, "optimise": "log-loss"}
    nightly = settings(root, train=train, publish_if="better", window_shards=1, contradiction=False)
    for days in ((1, 2), (3,)):
        shards(root, *days)
        assert not retrain(nightly)["decision"]["after_drift"]
    shards(root, 4, flipped=True, rows=rows)
    result = retrain(nightly)
    assert (result["outcome"], result["drift"]["found"]) == ("published", True), result["reason"]
    return nightly, result


def test_after_drift_figures_are_of_the_rows_that_decide(root: Path) -> None:
    nightly, first = begin_drift(root, ROWS)
    shards(root, 5, flipped=True)
    since = 0
    for result in (first, retrain(nightly)):
        decision, figures = result["decision"], result["metrics"]
        assert decision["after_drift"]
        overall, newest = decision["overall"], decision["newest"]
        assert figures["challenger"]["log_loss"] == pytest.approx(newest["challenger"], abs=1e-6)
        assert newest == overall
        assert newest["rows"] > since
        since = newest["rows"]
        assert np.sum(result["counted"]["confusion"]) == since
        page = Path(result["report"]).read_text(encoding="utf-8")
        title = f"On the same {newest['rows']} newest reserved rows, which decide after drift"
        assert page.index(title) < page.index("Champion and challenger on reserved rows")
        assert "lowest recall first, reserved rows since the drift" in page
    newest, before = first["decision"]["newest"], first["decision"]["before"]
    assert before["challenger"] > before["champion"] + 0.5, "the labels before the drift are the opposite"
    assert (
        f"These rows are of 1 file since the drift; on {before['rows']} from before the drift: log loss "
        f"{number(before['challenger'])}, the champion {number(before['champion'])}. If the change does not last, "
        "okl models rollback m undoes this." in first["reason"]
    )
    assert "earlier reserved rows" in Path(first["report"]).read_text(encoding="utf-8")
    assert "wrong more often" not in first["reason"]
    model = Registry(root / "registry").model("m")
    challenger, previous = (number(newest[role]) for role in ("challenger", "champion"))
    shown = f"log loss {challenger} (before: {previous}) on {newest['rows']} newest rows"
    assert shown in model_text(describe_model(model))
    description = " ".join(version_text(describe_one(model, model.version(first["version"]))).split())
    explained = okl.explain(f"m@{first['version']}", registry=str(root / "registry"))
    assert f"on {newest['rows']} newest held-out rows of 1 shard" in " ".join(explanation_text(explained).split())
    assert (
        f"measured on {newest['rows']} newest reserved rows at that time, after drift; before: the champion then"
        in description
    )


def test_rows_older_than_those_of_earlier_files_are_reported(root: Path) -> None:
    def dated(day: int, seed: int) -> pa.Table:
        times = np.datetime64("2025-03-01T00:00:00") + np.arange(ROWS) * 86_400 // ROWS + 86_400 * day
        born = np.datetime64("1980-01-01") + np.random.default_rng(seed).integers(0, 9000, ROWS)
        return content(seed).append_column("time", pa.array(times)).append_column("born", pa.array(born))

    nightly, warnings = settings(root, ingest={"keys": ["hour"], "missing": "mean"}), []
    for day, late in ((1, None), (2, None), (5, 2), (6, None)):
        rows = dated(day, day)
        rows = rows if late is None else pa.concat_tables([dated(late, 9)[: ROWS // 2], rows])
        land(root / "in", f"day-{day}.parquet", rows)
        warnings.append([one for one in retrain(nightly)["data_warnings"] if "are older by" in one])
    (sentence,) = warnings[2]
    assert sentence == (
        "day-5.parquet: 300 of 900 rows are older by 'time' than rows of day-2.parquet, which came before."
    )
    assert [*warnings[:2], warnings[3]] == [[], [], []], "dates of births do not advance from file to file"


def test_many_new_files_leave_the_earlier_ones_in_the_comparison(root: Path) -> None:
    shards(root, 1, 2)
    retrain(settings(root))
    shards(root, 3, 4, 5, 6)
    result = retrain(settings(root, holdout_shards=2))
    assert result["judged_on"] == [f"day-{day:02d}.parquet" for day in (1, 2, 5, 6)]
    assert result["decision"]["before"]["rows"] > 200


def test_the_reason_names_the_files_of_the_earlier_rows_if_not_all(root: Path) -> None:
    for day in (1, 2, 3):
        shards(root, day)
        result = retrain(settings(root, holdout_shards=1))
        assert ("(--holdout-shards)" in result["reason"]) == (day == 3)
    assert result["judged_on"] == ["day-02.parquet", "day-03.parquet"]
    assert "The earlier ones are of the latest 1 file trained on (--holdout-shards)." in result["reason"]


def test_a_scheduled_run_starts_no_new_model_after_a_publication(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OKL_HOME", str(root / "home"))
    land(root / "in", "day-1.parquet", content(1))
    assert RetrainingRun(settings(root), scheduled=True).perform()["version"] == 1  # there was no champion
    registry = Path(Registry(settings(root).registry).location)
    registry.rename(root / "not mounted")
    with pytest.raises(RegistryError, match=r"has no version, but version 1 was published there\. Mount its disk"):
        RetrainingRun(settings(root), scheduled=True).perform()
    assert not registry.exists()
    (root / "not mounted").rename(registry)
    assert RetrainingRun(settings(root), scheduled=True).perform()["outcome"] == "nothing new"
    shutil.rmtree(registry)
    assert retrain(settings(root))["version"] == 1
    land(root / "in", "day-2.parquet", content(2))
    assert RetrainingRun(settings(root), scheduled=True).perform()["outcome"] in ("published", "kept")


def test_a_dry_run_publishes_nothing(root: Path) -> None:
    shards(root, 1, 2)
    result = retrain(settings(root, dry_run=True))
    assert result["outcome"] == "dry run"
    assert result["decision"]["kind"] == "publish"
    assert Registry(root / "registry").model("m").state().champion is None
    assert retrain(settings(root))["version"] == 1


def test_a_dry_run_releases_nothing(root: Path) -> None:
    shards(root, 1, 2, 3)
    retrain(settings(root))
    shards(root, 4, flipped=True)
    (bad,) = retrain(settings(root))["shards"]["rejected"]
    released = settings(root, release=[bad["sha256"][:16]], dry_run=True)
    refused_by_both(released, rf"--release {bad['sha256'][:16]} would last after a dry run\. Remove it or --dry-run")
    assert ShardStore(root / "registry" / "m" / "data").records()[bad["sha256"]].status == "quarantined"


def test_an_excluded_shard_has_no_effect(root: Path) -> None:
    shards(root, 1, 2)
    retrain(settings(root))
    for day in (3, 4):
        shards(root, day)
        retrain(settings(root))
    unknown = r"'day-09.parquet' names no shard; expected the name of an accepted file.*\(day-03.parquet\)"
    refused_by_both(settings(root, exclude=["day-09.parquet"]), unknown)
    refused_by_both(settings(root, exclude=["day-03.parquet"], dry_run=True), "would last after a dry run")
    excluding = settings(root, exclude=["day-03.parquet"], on_bad="stop")
    result = retrain(excluding)
    assert (result["outcome"], result["version"]) == ("published", 4)
    assert result["how"] == "started anew on 3 shards, because day-03.parquet was excluded"
    assert sorted(lineage(root)) == ["day-01.parquet", "day-02.parquet", "day-04.parquet"]
    sha256 = result["shards"]["excluded"][0]["sha256"]
    undo = f"excluded: day-03.parquet ({ROWS} rows) is not trained on any more. To undo it: --release {sha256[:16]}"
    assert undo in summary_text(result)
    assert f"--release {sha256[:16]}" in Path(result["report"]).read_text()

    twin = root / "twin"
    twin.mkdir()
    shards(twin, 1, 2)
    retrain(settings(twin, train={"step_size": 0.2}))
    shards(twin, 4)
    assert retrain(settings(twin))["how"].startswith("started anew on 3 shards, because step_size changed")
    assert all(np.array_equal(value, arrays(twin)[name]) for name, value in arrays(root).items())

    again = retrain(excluding)
    assert again["outcome"] == "nothing new", "a deployment that keeps asking, and the file is still there"
    assert not again["shards"]["standing"]
    shards(root, 5)
    other_limits = settings(root, contract={"mean_shift": 4.0})
    assert [one["name"] for one in retrain(other_limits)["shards"]["learnt"]] == ["day-05.parquet"]
    released = retrain(settings(root, release=[sha256[:16]]))
    assert [one["name"] for one in released["shards"]["learnt"]] == ["day-03.parquet"]
    assert retrain(settings(root, exclude=[sha256[:16]]))["how"].startswith("started anew on 4 shards")


def test_a_champion_of_an_excluded_shard_is_replaced_unless_the_new_model_is_clearly_worse(root: Path) -> None:
    shards(root, 1, 2, 3)
    retrain(settings(root, publish_if="better"))
    few = settings(root, publish_if="better", exclude=["day-02.parquet"])
    kept = retrain(few.model_copy(update={"train": few.train.replaced(step_size=1e-6)}))
    assert kept["reason"].startswith("Kept: the challenger is worse than the champion")
    message = "day-02.parquet was excluded, but the champion m@1 was trained on it and stays in use."
    assert message in " ".join(summary_text(kept).split())
    published = retrain(settings(root, publish_if="better"))
    assert published["outcome"] == "published"
    assert published["reason"].startswith("Published: the challenger is not worse than the champion.")
    assert sorted(lineage(root)) == ["day-01.parquet", "day-03.parquet"]
    assert "stays in use" not in summary_text(published)
    both = settings(root, release=["day-03.parquet"], exclude=["day-03.parquet"])
    refused_by_both(both, "release and exclude both have 'day-03.parquet'")


def test_a_shard_of_a_version_that_was_rolled_back_can_be_excluded(root: Path) -> None:
    shards(root, 1, 2)
    retrain(settings(root))
    shards(root, 3)
    retrain(settings(root))
    Registry(root / "registry").model("m").rollback()
    assert "To train without one of these shards: --exclude NAME." in retrain(settings(root))["reason"]
    assert retrain(settings(root, exclude=["day-03.parquet"]))["outcome"] == "nothing new", "the champion is without it"
    shards(root, 4)
    result = retrain(settings(root))
    assert (result["how"], result["parent"]) == ("continued with 1 new shards", 1)
    assert sorted(lineage(root)) == ["day-01.parquet", "day-02.parquet", "day-04.parquet"]


def test_a_batch_solver_is_trained_without_excluded_shards_while_any_remain(root: Path) -> None:
    shards(root, 1, 2, 3)
    train = {"solver": "c-svm", "frequencies": 20, "tol": 1e-2, "step_size": "auto", "order": "shuffle"}
    retrain(settings(root, train=train))
    result = retrain(settings(root, train=train, exclude=["day-02.parquet"]))
    how = "solved on the latest 2 shards, because day-02.parquet was excluded"
    assert (result["how"], result["version"]) == (how, 2)
    assert champion(root).lineage.parent is None
    assert retrain(settings(root, train=train))["outcome"] == "nothing new"
    names = ["day-01.parquet", "day-02.parquet", "day-03.parquet"]
    assert retrain(settings(root, train=train, exclude=names))["outcome"] == "nothing new"
    assert champion(root).number == 2


def test_a_late_file_is_neither_the_newest_nor_drift(root: Path) -> None:
    train = {"solver": "ridge", "frequencies": None, "step_size": None, "order": None}
    nightly = settings(root, train=train, contradiction=False, time_column="hour")
    for days in ((1, 2), (4,)):
        shards(root, *days)
        assert retrain(nightly)["outcome"] == "published"
    (root / "in" / "day-03.parquet").write_bytes(b"PAR1 and then nothing")
    summary = " ".join(summary_text(retrain(nightly)).split())
    assert "Correct the file and add it again. If newer files are trained on by then, it needs --release." in summary
    shards(root, 3, flipped=True)
    (late,) = retrain(nightly)["shards"]["rejected"]
    assert late["kinds"] == ["late"]
    result = retrain(nightly.model_copy(update={"release": (late["sha256"][:16],), "publish_if": "better"}))
    assert [one["name"] for one in result["shards"]["learnt"]] == ["day-03.parquet"]
    assert result["progressive"][0]["error"] > 0.8
    assert not result["drift"]["found"]
    assert result["drift"]["shards"]["day-03.parquet"]["p_value"] is None
    assert "or no later rows are new" in result["drift"]["why"]
    assert not points_of(result)[-1]["rejected"]
    assert "newest" not in result["reason"]
    assert result["decision"]["newest"] == result["decision"]["overall"]
    shards(root, 5)
    last = retrain(nightly)
    assert last["outcome"] == "published"
    assert last["drift"]["shards"]["day-05.parquet"]["past_rate"] < 0.3, "the late file is no measure of later ones"


def test_only_one_of_two_retrainings_at_once_publishes(root: Path) -> None:
    shards(root, 1, 2)
    retrain(settings(root))
    shards(root, 3)
    slow, fast = RetrainingRun(settings(root)), RetrainingRun(settings(root, margin=0.1))
    for stage in RETRAIN_STAGES[:-2]:
        slow.perform_stage(stage)
    for stage in RETRAIN_STAGES:
        fast.perform_stage(stage)
    published = slow.publish()  # same shards and same parent: the existing version is found
    assert (published["version"], published["new"], fast.result()["version"]) == (2, False, 2)
    slow.close()
    fast.close()
    shards(root, 4)
    late = RetrainingRun(settings(root))
    for stage in RETRAIN_STAGES[:-2]:
        late.perform_stage(stage)
    shards(root, 5)
    assert retrain(settings(root))["version"] == 3
    with pytest.raises(ConflictError, match="champion"):
        late.publish()
    late.close()
    late.close()
    assert sorted(lineage(root)) == [f"day-{day:02d}.parquet" for day in range(1, 6)]


def test_a_window_of_time_is_learnt_alone(root: Path) -> None:
    shards(root, 1, 2, 3, 4)
    windowed = settings(root, time_column="hour", window_from="48", window_to="96")
    assert [one["name"] for one in retrain(windowed)["shards"]["learnt"]] == ["day-02.parquet", "day-03.parquet"]
    rest = retrain(settings(root, time_column="hour"))
    assert [one["name"] for one in rest["shards"]["learnt"]] == ["day-01.parquet", "day-04.parquet"]
    nameless = settings(root, name="n", window_from="2026-11-01")
    with pytest.raises(ConfigError, match="need the time of a shard"):
        retrain(nameless)


def test_a_batch_solver_solves_the_latest_shards_again_with_a_certificate(root: Path) -> None:
    shards(root, 1, 2, 3)
    train = {"solver": "c-svm", "frequencies": 20, "tol": 1e-2, "step_size": "auto", "order": "shuffle"}
    batch = settings(root, train=train, window_shards=2)
    first = retrain(batch)
    assert first["outcome"] == "published"
    assert first["certificate"]["relative_gap"] <= 1e-2
    shards(root, 4)
    second = retrain(batch)
    assert second["how"] == "solved on the latest 2 shards, warm-started from the champion in its feature map"
    assert second["certificate"]["relative_gap"] <= 1e-2
    shards(root, 5)
    other = batch.model_copy(update={"train": batch.train.replaced(frequencies=30)})
    assert retrain(other)["how"] == "solved on the latest 2 shards"  # another problem
    assert sorted(lineage(root)) == [f"day-{day:02d}.parquet" for day in range(1, 6)]
    assert "was trained with" not in second["reason"]
    shards(root, 6)
    reason = retrain(settings(root))["reason"]
    assert "The champion was trained with c-svm, the challenger with fogd. Its solver: --solver c-svm" in reason
    options = dict(one.split("=") for one in reason.partition("--solver c-svm ")[2].replace("--set train.", "").split())
    again = TrainSettings(data=batch.train.data, solver="c-svm", threads=other.train.threads, **options)
    assert again.model_dump() == other.train.model_dump(), "these options are all that differ from the defaults"


def test_slices_are_judged_by_themselves(root: Path) -> None:
    shards(root, 1, 2)
    result = retrain(settings(root, slices=("x3", "x0")))
    names = set(result["decision"]["slices"])
    assert {"x3 = 0", "shard day-01.parquet", "shard day-02.parquet"} <= names
    assert sum(name.startswith("x0 = ") for name in names) == 4
    rows = result["decision"]["overall"]["rows"]
    assert sum(one["rows"] for name, one in result["decision"]["slices"].items() if name.startswith("x0")) == rows
    with pytest.raises(ConfigError, match="nowhere"):
        retrain(settings(root, name="other", slices=("nowhere",)))


def test_slices_of_a_key_are_named_by_value_in_any_spelling(root: Path) -> None:
    for day, write in ((1, "{}"), (2, "0{}")):
        table = content(day)
        hours = [write.format(1_000_001 + row % 2) for row in range(len(table))]
        kept = pa.array(hours) if day == 2 else pa.array([int(hour) for hour in hours])
        land(root / "in", f"day-{day:02d}.parquet", table.set_column(table.column_names.index("hour"), "hour", kept))
    slices = retrain(settings(root, slices=("hour",)))["decision"]["slices"]
    rows_by_hour = {name: one["rows"] for name, one in slices.items() if name.startswith("hour")}
    assert sorted(rows_by_hour) == ["hour = 1000001", "hour = 1000002"]
    assert sum(rows_by_hour.values()) == sum(one["rows"] for name, one in slices.items() if name.startswith("shard"))


def test_a_champion_trained_on_other_rows_is_reported(root: Path) -> None:
    shards(root, 1)
    run = retrain(settings(root, name="run"))["folder"]
    publish_trained(Registry(root / "registry").model("m"), place_of(f"{run}/model"), promote=True)
    shards(root, 2)
    (root / "in" / "day-01.parquet").unlink()
    result = retrain(settings(root, publish_if="clearly better"))
    assert (result["outcome"], result["apart"]) == ("kept", 490)
    message = "trained in a run on 490 rows, the challenger on 475 rows of the source. Add the rows of that run"
    assert message in result["reason"]
    (figure,) = reserved_figure(result)
    assert "the champion came from a run and may have" in str(figure)


def test_champion_and_challenger_read_rows_by_their_own_scaling(root: Path) -> None:
    shards(root, 1)
    retrain(settings(root))
    pq.write_table(content(1), root / "rows.parquet")
    read = {"target": "y", "scale": "minmax", "keys": ["hour"]}
    train(TrainSettings(data=str(root / "rows.parquet"), ingest=read, out=str(root / "run"), solver="ridge"))
    publish_trained(Registry(root / "registry").model("m"), root / "run", promote=True)
    shards(root, 2)
    result = retrain(settings(root, ingest={"keys": ["hour"]}))
    for scored in result["progressive"]:
        source = str(root / "in" / scored["shard"])
        raw = evaluate_model(EvaluateSettings(model=str(root / "run" / "model"), source=source))
        assert scored["error"] == pytest.approx(1.0 - raw["metrics"]["accuracy"], abs=0.02), "of the rows not reserved"
        assert scored["error"] < 0.2
    made = champion(root).load().schema
    assert made.scale == "minmax", "challengers read rows as the champion does"


def test_versions_keep_the_threshold_of_the_champion_until_another_one_is_given(root: Path) -> None:
    def night(day: int, **train: Any) -> float:
        shards(root, day)
        assert retrain(settings(root, train=train))["outcome"] == "published"
        return float(champion(root).load().predictor.threshold)

    assert night(1, threshold=0.8) == pytest.approx(0.8)
    assert night(2) == pytest.approx(0.8)
    first = champion(root)
    model = Registry(root / "registry").model("m")
    publish_trained(model, first.files / "model", promote=True, threshold=0.3, why="fewer misses")
    assert model.entries()[-1].why == "fewer misses"
    tuned = champion(root)
    assert tuned.load().predictor.threshold == pytest.approx(0.3)
    assert tuned.lineage.settings["threshold"] == 0.3
    assert tuned.number == first.number + 1
    assert night(3) == pytest.approx(0.3)
    assert night(4, threshold=0.6) == pytest.approx(0.6)


def test_a_challenger_without_probabilities_is_compared_without_the_threshold(root: Path) -> None:
    shards(root, 1)
    retrain(settings(root, train={"threshold": 0.8}))
    shards(root, 2)
    result = retrain(settings(root, train={"constraints": ["abs(covariance(hour)) <= 100", "norm <= 10"]}))
    assert "The champion's threshold is not used: threshold = 0.8 needs probabilities." in result["reason"]


@pytest.mark.parametrize(
    ("columns", "ingest", "why"),
    [
        (["x0", "x1", "x2"], {}, "its rows have 3 inputs, those of the shards 4 (x3 differ)"),
        (["x0", "x1", "x2", "x3"], {"target": "x3", "task": "regression"}, "its target is x3 (regression)"),
    ],
)
def test_a_model_that_cannot_score_the_stored_shards_is_no_version(
    root: Path, columns: list[str], ingest: dict[str, str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model published before shards were compared stops the retraining with instructions for a rollback."""
    shards(root, 1)
    retrain(settings(root))
    pq.write_table(content(1).select([*columns, "y"]), root / "rows.parquet")
    read = {"target": "y", "scale": "standard", "holdout": 0.2} | ingest
    train(TrainSettings(data=str(root / "rows.parquet"), ingest=read, out=str(root / "run"), solver="fogd"))
    model = Registry(root / "registry").model("m")
    with pytest.raises(
        ConfigError, match=re.escape(f"run does not fit the shards that retraining has stored for m: {why}")
    ):
        publish_trained(model, root / "run", promote=True)
    assert champion(root).number == 1
    with monkeypatch.context() as patch:
        patch.setattr("okl.lifecycle.versions.input_difference", lambda *_: "")
        publish_trained(model, root / "run", promote=True)
    shards(root, 2)
    with pytest.raises(ConfigError, match=r"The champion m@2 does not fit the stored .*: okl models rollback m$"):
        retrain(settings(root))
    model.rollback()
    assert retrain(settings(root))["parent"] == 1


def test_a_champion_without_a_state_is_retrained_on_all_its_shards(root: Path) -> None:
    shards(root, 1, 2)
    retrain(settings(root))
    state = champion(root).folder / "state" / "state.json"
    state.write_text("{}")
    shards(root, 3)
    result = retrain(settings(root))
    assert (result["outcome"], result["version"]) == ("published", 2)
    assert result["how"] == "started anew on 3 shards"
    assert sorted(lineage(root)) == ["day-01.parquet", "day-02.parquet", "day-03.parquet"]
    assert sum(champion(root).load().schema.class_counts) == sum(
        record.train_rows for record in ShardStore(root / "registry" / "m" / "data").accepted()
    )
    assert 0.7 < sum(champion(root).load().schema.class_counts) / (3 * ROWS) < 0.9


def rare(seed: int, rows: int = 2500) -> pa.Table:
    """Return a class of 3% that depends on the columns but has no probability above 0.5."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((3, rows))
    noisy = x[0] + 0.5 * x[1] ** 2 + random.standard_normal(rows)
    label = noisy > np.quantile(noisy, 0.97)
    hour = 24.0 * seed + np.sort(random.random(rows)) * 24
    return pa.table({f"x{i}": column for i, column in enumerate(x)} | {"hour": hour, "y": np.where(label, "yes", "no")})


def test_a_rare_class_gets_a_champion_with_probabilities_that_later_versions_are_compared_with(root: Path) -> None:
    land(root / "in", "day-01.parquet", rare(1))
    first = retrain(settings(root, publish_if="better"))
    assert first["outcome"] == "published"
    assert first["reason"].startswith("Published: the first champion of this model; the challenger is")
    assert "required" not in first["reason"], "a first version needs no significance"
    assert first["decision"]["test"] == "paired t-test of log losses"
    metrics = first["metrics"]["challenger"]
    assert metrics["roc_auc"] > 0.65
    assert metrics["log_loss"] < first["metrics"]["champion"]["log_loss"]  # of the shares of the classes
    overall = first["decision"]["overall"]
    assert {name: overall[name] for name in first["metrics"]} == pytest.approx(
        {name: figures["log_loss"] for name, figures in first["metrics"].items()}
    ), "the decision and the table have the same figures"
    (record,) = ShardStore(root / "registry" / "m" / "data").accepted()
    at = {"model": "m@1", "registry": str(root / "registry"), "split": "test"}
    served = evaluate_model(EvaluateSettings(source=str(root / "registry" / "m" / "data" / record.key), **at))
    assert served["metrics"]["log_loss"] == pytest.approx(overall["challenger"]), "they are those of the served model"
    model = champion(root).load()
    assert 0.01 < model.predict_proba(rare(7))[:, 1].mean() < 0.06
    land(root / "in", "day-02.parquet", rare(2))
    second = retrain(settings(root))
    assert second["parent"] == 1
    assert "log loss" in second["reason"]
    assert second["decision"]["overall"]["rows"] > 900
    for name, figures in second["metrics"].items():
        assert second["decision"]["overall"][name] == pytest.approx(figures["log_loss"])
    refused = settings(root, train={"optimise": "auc", "threshold": 0.2})
    land(root / "in", "day-03.parquet", rare(3))
    third = retrain(refused)
    assert third["decision"]["test"] == "DeLong test"
    assert "continued with 1 new shards" in third["how"]  # neither setting changes the weights


@pytest.mark.parametrize(("given", "scale"), [(None, "standard"), ("none", "none"), ("minmax", "minmax")])
def test_inputs_are_standardised_for_a_given_solver_unless_a_scaling_is_given(
    given: str | None, scale: str, tmp_path: Path
) -> None:
    shards(tmp_path, 1)
    scaling = {} if given is None else {"scale": given}
    assert retrain(settings(tmp_path, ingest={"keys": ["hour"]} | scaling))["version"] == 1
    assert champion(tmp_path).load().schema.scale == scale
