"""Every setting of a retraining takes effect or is refused with a message; none is ignored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from okl.foundation.errors import ConfigError, DataError
from okl.foundation.settings import IngestSettings, settings_from
from okl.lifecycle.champion import ModelHistory, open_champion
from okl.lifecycle.lineage_checks import check_arrivals, without_constraints
from okl.lifecycle.retrain import RETRAIN_STAGES, RetrainingRun, retrain
from okl.lifecycle.settings import NOT_OF_TRAIN, RetrainSettings
from okl.lifecycle.shard_store import ShardStore
from okl.lifecycle.versions import changed_training_setting, publish_trained
from okl.models.registry import Registry
from okl.solvers.settings import TrainSettings
from tests.lifecycle.shards import content, first_schema, land, validated
from tests.lifecycle.stories import arrays, champion, lineage, refused_by_both, settings, shards
from tests.rows import train

LIMITED: dict[str, Any] = {"constraints": ["abs(covariance(x0)) <= 0.05", "norm <= 10"], "frequencies": 20}


def test_columns_of_constraints_are_not_inputs(root: Path) -> None:
    limited = settings(root, train=LIMITED)
    shards(root, 1)
    check_arrivals(limited)
    assert retrain(limited)["outcome"] == "published"
    shards(root, 2)
    second = retrain(limited)
    assert (second["outcome"], second["how"]) == ("published", "continued with 1 new shards")
    model = champion(root).load()
    assert (model.schema.features, model.schema.keys) == (("x1", "x2", "x3"), ("hour", "x0"))
    table = content(9)
    raw = np.column_stack([table[name].to_numpy() for name in model.schema.features])
    right = float((model.predict(raw) == table["y"].to_numpy()).mean())
    assert 0.5 < right < 1.0
    assert second["metrics"]["challenger"]["accuracy"] == pytest.approx(right, abs=0.15)
    shards(root, 3)
    refused_by_both(settings(root, train=LIMITED | {"learn_sensitive": True}), "created with 'x0' as a key")
    assert retrain(settings(root, train=LIMITED, ingest={}))["how"] == "continued with 1 new shards"


def test_later_settings_that_contradict_the_model_are_refused(root: Path) -> None:
    shards(root, 1)
    assert retrain(settings(root, train={"frequencies": 10}))["outcome"] == "published"
    of_keys = {"constraints": ["abs(covariance(hour)) <= 1", "norm <= 10"], "frequencies": 10}
    for constraints, sentence in (
        (LIMITED["constraints"], "uses the column 'x0', which is an input of the model m"),
        (["mean(houre=1) >= -1", "norm <= 10"], "has no constrained column 'houre'"),
    ):
        refused_by_both(settings(root, train=LIMITED | {"constraints": constraints}), sentence)
    for ingest, sentence in (
        ({"target": "x1"}, "target = 'x1' conflicts with 'y', the value with which the model m was created"),
        (
            {"scale": "minmax"},
            "scale = 'minmax' conflicts with 'standard', the value with which the model m was created",
        ),
        ({"keys": ["hour", "x2"]}, "'x2' is given as a key, but the model m was created with it as an input"),
        ({"drop": ["x3"]}, "'x3' is given as a column to drop, but the model m was created with it as an input"),
    ):
        refused_by_both(settings(root, ingest=ingest), sentence)
    assert champion(root).number == 1
    shards(root, 2)
    second = retrain(settings(root, train=of_keys))
    assert (second["outcome"], second["parent"]) == ("published", 1)
    assert second["how"].startswith("started anew on 2 shards, because constraints changed from ")
    shards(root, 3)
    result = retrain(settings(root, train=LIMITED | {"learn_sensitive": True}))
    assert (result["outcome"], result["how"][:24]) == ("published", "started anew on 3 shards")
    assert champion(root).load().schema.features == ("x0", "x1", "x2", "x3")


def test_changed_training_settings_start_a_new_learner(root: Path) -> None:
    shards(root, 1)
    assert retrain(settings(root, train={"frequencies": 10, "class_weights": {"1": 1.25}}))["outcome"] == "published"
    shards(root, 2)
    elsewhere = {"frequencies": 10, "class_weights": {"1": 1.25}, "threads": 2, "mode": "stream"}
    assert retrain(settings(root, train=elsewhere))["how"] == "continued with 1 new shards"
    shards(root, 3)
    run = RetrainingRun(settings(root, train=elsewhere | {"frequencies": 15, "passes": 2}))
    metrics = {stage: run.perform_stage(stage) for stage in RETRAIN_STAGES}
    run.close()
    assert metrics["learn"]["anew"] == "frequencies changed from 10 (m@2) to 15"
    assert run.result()["how"] == "started anew on 3 shards, because frequencies changed from 10 (m@2) to 15"
    assert arrays(root)["weights"].shape == (1, 30)
    assert lineage(root) == [f"day-{day:02d}.parquet" for day in (1, 2, 3)]


def test_settings_without_an_effect_do_not_start_a_new_learner(root: Path) -> None:
    shards(root, 1)
    nightly = settings(root, train={"frequencies": 10})
    retrain(nightly)
    now = open_champion(Registry(nightly.registry).model("m"))
    assert now is not None
    for name, value in (("budget_seconds", 120.0), ("rescale", "standard"), ("frequencies", 11)):
        configuration = now.model.configuration | {name: value}
        known = ModelHistory(replace(now, model=replace(now.model, configuration=configuration)))
        reason = "frequencies changed from 11 (m@1) to 10" if name == "frequencies" else ""
        assert changed_training_setting(nightly, known) == reason


@pytest.mark.parametrize("name", NOT_OF_TRAIN)
def test_settings_without_a_use_in_retraining_are_refused(name: str, tmp_path: Path) -> None:
    values = {
        "ingest": {"target": "z"},
        "rescale": "standard",
        "metric": "diagonal",
        "beside": "boosting",
        "certify": True,
        "out": "run",
    }
    given = {name: values.get(name, 5 if "_" in name else "other")}
    with pytest.raises(ConfigError, match=f"{name}.* is not a setting of a retraining: .*Remove it"):
        settings_from(RetrainSettings, {"name": "m", "source": "in", "train": given}, "here")
    stored = settings(tmp_path).model_dump(mode="json")
    assert RetrainSettings.model_validate(stored) == settings(tmp_path), "what is as usual does no harm"


@pytest.mark.parametrize(("name", "value"), [("holdout", 0.5), ("split_column", "part")])
def test_rows_are_reserved_by_a_share_alone(name: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{name} = .* is not a setting of ingest in a retraining"):
        settings_from(RetrainSettings, {"name": "m", "source": "in", "train": {}, "ingest": {name: value}}, "here")


def test_a_single_shard_is_checked_without_limits_on_columns() -> None:
    more = {"constraint_margin": 0.1, "constraint_gain": 0.5, "learn_sensitive": True}
    limited = TrainSettings.model_validate({"data": "in", **LIMITED, **more})
    free = TrainSettings.model_validate({"data": "in", **LIMITED, "constraints": ["norm <= 10"]})
    assert without_constraints(limited) == without_constraints(free) == free


def test_a_release_without_effect_is_refused(root: Path) -> None:
    store = ShardStore(root / "registry" / "m" / "data")
    schema = store.set_reference(first_schema(root))
    few = validated(store, land(root / "in", "few.parquet", content(1).slice(0, 20)), schema)
    releasing = settings(root, release=[few.key])
    check_arrivals(releasing)
    refused_by_both(
        settings(root, release=["ffff"]), rf"names no shard; .* Quarantined shards: {few.key} \(few\.parquet"
    )
    (root / "in" / "few.parquet").unlink()
    with pytest.raises(
        DataError,
        match=rf"few\.parquet is quarantined and no longer in .* Restore the file, or remove {few.key} from",
    ):
        retrain(releasing)


def test_a_bad_training_option_is_named_alone() -> None:
    given = {"name": "m", "source": "in", "train": {"solver": "fogd", "frequencies": "many"}}
    with pytest.raises(ConfigError, match=r"^here: frequencies = 'many': input should be a valid integer"):
        settings_from(RetrainSettings, given, "here")


@pytest.mark.parametrize("ingest", [{}, {"missing": "mean", "dates": "parts"}, {"missing": "error", "dates": "drop"}])
def test_settings_without_their_defaults_are_the_same_settings(ingest: dict[str, Any], tmp_path: Path) -> None:
    """A deployment stores settings without defaults; rows are read as by okl train unless set otherwise."""
    given = {"name": "m", "source": str(tmp_path), "train": {"solver": "ridge"}, "ingest": ingest}
    retrain_settings = RetrainSettings.model_validate(given)
    assert (
        RetrainSettings.model_validate(retrain_settings.model_dump(mode="json", exclude_defaults=True))
        == retrain_settings
    )
    assert retrain_settings.ingest == IngestSettings(**ingest)


def test_a_learnt_metric_of_a_published_run_is_kept(root: Path) -> None:
    rows = root / "rows.parquet"
    pq.write_table(content(1), rows)
    values = {"solver": "ridge", "metric": "diagonal", "rescale": "standard", "n_landmarks": 100}
    ingest = {"target": "y", "scale": "standard", "keys": ["hour"]}
    trained = train(TrainSettings(data=str(rows), ingest=ingest, out=str(root / "run"), **values))
    metric = trained.model.schema.metric
    assert metric[2] < metric[0] + metric[1]
    publish_trained(Registry(root / "registry").model("m"), root / "run", promote=True)
    shards(root, 2)
    second = retrain(settings(root))
    assert second["metrics"]["champion"]["accuracy"] == pytest.approx(trained["test"]["accuracy"], abs=0.1)
    for version in Registry(root / "registry").model("m").versions():
        assert version.load().schema.metric == metric
