from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from okl.foundation.errors import ConfigError
from okl.foundation.validation import check_at_least, check_positive, parse_json


@pytest.mark.parametrize("value", [2, 2.0, np.int64(2), np.uint8(2), np.float32(2), np.float64(2)], ids=repr)
def test_a_number_of_numpy_is_a_number(value: Any) -> None:
    for found, kind in ((check_positive("C", value), float), (check_at_least("budget", value, 2), int)):
        assert found == 2
        assert type(found) is kind


@pytest.mark.parametrize("value", [True, np.True_, "2", None, 0, -1.0, float("nan"), np.inf, [2]], ids=repr)
def test_anything_else_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ConfigError, match="C = "):
        check_positive("C", value)
    with pytest.raises(ConfigError, match="budget = "):
        check_at_least("budget", value, 1)


def test_a_broken_number_is_no_count() -> None:
    with pytest.raises(ConfigError, match=r"budget = 2\.5; expected an integer of at least 1"):
        check_at_least("budget", 2.5, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', "[NaN]", "[1e999]", "[" * 100_000, '{"a":' * 50_000, "", b"\xff"])
def test_invalid_json_raises_value_error_only(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)
    assert parse_json('{"a": [1, 2.5, null]}') == {"a": [1, 2.5, None]}
