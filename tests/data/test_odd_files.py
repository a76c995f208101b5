"""Each odd file gives the expected table, or is refused with the expected message; see `odd_files`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from okl.data.ingest.run import check_source, find_formats, ingest
from okl.data.ingest.sources import scan_source
from okl.data.ingest.value_formats import described
from okl.foundation.errors import DataError
from tests.data.odd_files import FILES
from tests.data.sources import settings

SETTINGS = settings(missing="mean", dates="parts")


def table_of(path: Path) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the columns of a file as ingest reads them, and notes on its assumptions."""
    source, notes = find_formats(scan_source(check_source(path, SETTINGS), None), SETTINGS)
    notes = [*map(described, source.pieces[0].formats), *notes]
    return pa.Table.from_batches([part.batch for part in source.batches()]).to_pydict(), notes


@pytest.mark.parametrize("name", FILES)
def test_odd_file_is_read_as_expected_or_refused(name: str, tmp_path: Path) -> None:
    content, expected, note = FILES[name]
    (tmp_path / name).write_bytes(content)
    if isinstance(expected, str):
        with pytest.raises(DataError, match=expected) as refused:
            ingest(tmp_path / name, tmp_path / "data", SETTINGS)
        sentence = str(refused.value).replace(str(tmp_path), "")
        assert "\n" not in sentence
        assert len(sentence) < 300
        return
    columns, notes = table_of(tmp_path / name)
    assert repr({key: columns[key] for key in expected}) == repr(expected)
    assert len(columns) == len(expected)
    assert re.search(note, " ".join(notes))
