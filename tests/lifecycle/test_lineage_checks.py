"""The ingest settings of a new model hold for all its shards: different settings are refused, equal ones are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from okl.data.dataset import Schema
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.settings import IngestSettings
from okl.lifecycle.lineage_checks import check_lineage_start, first_ingest, first_reference, input_difference
from okl.lifecycle.shard_store import ShardStore, arrivals
from tests.lifecycle.shards import first_schema
from tests.lifecycle.stories import refused_by_both, settings, shards


def reference_of(folder: Path, text: str, **ingest: Any) -> Schema:
    """Return the reference schema of a new model from the first file in the inbox."""
    (folder / "in").mkdir(parents=True)
    file = folder / "in" / ("day.csv" if "," in text else "day.svm")
    file.write_text(text)
    (found,), *_ = arrivals(str(folder / "in"))
    return first_reference([(found, "")], IngestSettings.model_validate({"rows_per_group": 64} | ingest))


CSV_TEXT = "zip,at,word,id,k,y\n" + "".join(
    f"{8000 + i % 3},2026-11-{1 + i % 9:02d},{'abcd'[i % 4]},n{i},{i},{i % 2}\n" for i in range(40)
)
PARTS: dict[str, Any] = {"dates": "parts", "keys": ["k"]}
NOW_CATEGORY = "is given as a category, but the model m was created"
INDICES = "".join(f"{i % 2} 1:{i} {2 + i % 3}:1\n" for i in range(40))


def test_target_means_of_the_first_files_are_refused(root: Path) -> None:
    with pytest.raises(ConfigError, match="many_values = 'means' is for okl train"):
        first_ingest(settings(root, ingest={"many_values": "means"}))


@pytest.mark.parametrize(
    ("text", "first", "later", "sentence"),
    [
        (CSV_TEXT, PARTS, {"categories": ["zip"]}, f"'zip' {NOW_CATEGORY} with it as a number"),
        (CSV_TEXT, PARTS, {"categories": ["at"]}, f"'at' {NOW_CATEGORY} with it as a date"),
        (CSV_TEXT, PARTS, {"categories": ["k"]}, f"'k' {NOW_CATEGORY} with it as a key, and does not train"),
        (CSV_TEXT, PARTS, {"categories": ["id"]}, f"'id' {NOW_CATEGORY} without it, and does not train"),
        (
            CSV_TEXT,
            PARTS,
            {"max_categories": 3},
            "max_categories = 3 conflicts with 4 or more, the value with which the",
        ),
        (
            CSV_TEXT,
            PARTS | {"max_categories": 3},
            {"max_categories": 4},
            "max_categories = 4 conflicts with 3, the",
        ),
        (CSV_TEXT, PARTS, {"many_values": "means"}, "many_values = 'means' conflicts with 'inputs', the value with"),
        (CSV_TEXT, PARTS, {"group": "zip"}, "group = 'zip', but the model m was created without this column as a key."),
        (
            CSV_TEXT,
            PARTS,
            {"keys": ["id"]},
            "key = 'id', but the model m was created without this column as a key, so its",
        ),
        (
            CSV_TEXT,
            PARTS,
            {"missing_words": ["-9"]},
            r"missing_words = \('-9',\) conflicts with \(\), the value with which",
        ),
        (CSV_TEXT, PARTS, {"dates": "drop"}, "dates = 'drop' conflicts with 'parts', the value with which the model m"),
        (INDICES, {}, {"svmlight_index": "0"}, "svmlight_index = '0' conflicts with '1', the value with which"),
        (INDICES, {}, {"hash_columns": 5}, "hash_columns = 5 conflicts with None, the value with which"),
        (INDICES, {"hash_columns": 9}, {"hash_columns": 5}, "hash_columns = 5 conflicts with 9, the value with which"),
    ],
)
def test_the_encoding_of_inputs_holds_for_all_shards(
    text: str, first: dict[str, Any], later: dict[str, Any], sentence: str, root: Path
) -> None:
    reference = reference_of(root, text, **first)
    check_lineage_start(settings(root, ingest=first), reference)
    ShardStore(root / "registry" / "m" / "data").set_reference(reference)
    refused_by_both(settings(root, ingest=later), sentence)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        (CSV_TEXT, {"dates": "parts", "categories": ["zip", "word", "id"], "max_categories": 3, "drop": ["k"]}),
        (CSV_TEXT, {"dates": "parts", "drop": ["at"], "max_categories": 4}),
        (CSV_TEXT, {"dates": "drop", "categories": ["zip"], "max_categories": 100}),
        ("x,y\n1,0\n2,1\n", {"dates": "parts", "max_categories": 2, "svmlight_index": "1"}),
        (INDICES, {"svmlight_index": "1", "hash_columns": 9}),
    ],
)
def test_the_original_ingest_settings_may_be_repeated(text: str, given: dict[str, Any], root: Path) -> None:
    reference = reference_of(root, text, **given)
    for ingest in (given, {}):
        check_lineage_start(settings(root, ingest=ingest), reference)


def test_a_new_model_with_an_empty_category_is_refused(root: Path) -> None:
    empty = "zip,x,y\n" + "".join(f",{i},{i % 2}\n" for i in range(10))
    with pytest.raises(DataError, match=r"'zip' is named as a category, but has no value"):
        reference_of(root, empty, categories=["zip"])


@pytest.mark.parametrize("constraints", [[], ["norm <= 10"]])
def test_learn_sensitive_requires_a_constraint_with_a_column(constraints: list[str], root: Path) -> None:
    train = {"learn_sensitive": True, "constraints": constraints}
    shards(root, 1)
    refused_by_both(settings(root, train=train), "learn_sensitive = True .*, but no constraint uses a column")
    ShardStore(root / "registry" / "m" / "data").set_reference(first_schema(root))
    refused_by_both(settings(root, train=train), "learn_sensitive = True .*, but no constraint uses a column")


def test_classes_that_are_stored_in_another_order_are_the_same_inputs(tmp_path: Path) -> None:
    schema = first_schema(tmp_path, text=True)
    assert schema.labels == ("no", "yes")
    assert input_difference(replace(schema, stored_labels=schema.stored_labels[::-1], keys=()), schema) == ""
    others = replace(schema, labels=("no", "maybe"))
    assert input_difference(others, schema) == "its classes are no, maybe, not no, yes"
