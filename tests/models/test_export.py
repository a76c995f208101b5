"""`okl export`, as a user types it: a file that scores as okl does, or none."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import okl
from okl.foundation.errors import ConfigError, ModelError
from okl.models import export
from okl.models.file import save_model
from tests.flows.commandline import Terminal
from tests.models.models import Case, of_times, raw_rows


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Terminal:
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    save_model(Case("fourier").model(), tmp_path / "model")
    return Terminal(capsys, monkeypatch)


def test_exported_files_score_as_the_saved_model_does(terminal: Terminal, tmp_path: Path) -> None:
    expected = okl.load(tmp_path / "model").scores(raw_rows())
    made = terminal.okl_json("export", tmp_path / "model", tmp_path / "new" / "model.onnx")
    assert made["largest_difference"] < 1e-5
    assert made["bytes"] == (tmp_path / "new" / "model.onnx").stat().st_size
    session = onnxruntime.InferenceSession(tmp_path / "new" / "model.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(["scores"], {"rows": raw_rows()})[0], expected, atol=1e-5)
    terminal.okl_json("export", tmp_path / "model", tmp_path / "model.skops", "--format", "skops")
    import skops.io

    pipeline = skops.io.load(tmp_path / "model.skops")
    np.testing.assert_allclose(pipeline.decision_function(raw_rows()), expected, atol=1e-5)


def test_a_failed_export_names_its_cause_and_writes_nothing(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "model.onnx"
    assert "pkl does not end in .onnx or .skops" in terminal.okl("export", "no-model", tmp_path / "m.pkl").sentence
    assert "format = 'pickle'" in terminal.okl("export", tmp_path / "model", out, "--format", "pickle").sentence
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    found = terminal.okl("export", tmp_path / "model", out)
    assert (found.code, "pip install 'okl[onnx]'" in found.sentence) == (2, True)
    monkeypatch.undo()
    assert not out.exists()
    out.write_text("mine")
    assert "already exists and is not overwritten" in terminal.okl("export", tmp_path / "model", out).sentence
    assert out.read_text() == "mine"


def test_a_missing_package_of_a_format_is_one_sentence_and_other_formats_still_work(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("export", "onnx", "sklearn"):  # imported again without the missing package
        monkeypatch.delitem(sys.modules, f"okl.models.{name}", raising=False)
        monkeypatch.delattr(okl.models, name, raising=False)
    for name in ("onnx", "skops"):
        monkeypatch.setitem(sys.modules, name, None)
        refused = terminal.okl("export", tmp_path / "model", tmp_path / f"model.{name}")
        message = f"Error: --format {name} requires {name}. Install: pip install 'okl[{name}]'."
        assert (refused.code, refused.sentence) == (2, message)
    monkeypatch.delitem(sys.modules, "skops")
    made = terminal.okl_json("export", tmp_path / "model", tmp_path / "model.skops")
    assert made["format"] == "skops"
    assert "okl.models.onnx" not in sys.modules
    assert sorted(path.name for path in tmp_path.glob("model.*")) == ["model.skops"]


def test_file_whose_scores_differ_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Case("fourier").model()
    save_model(model, tmp_path / "model")
    from okl.models import onnx

    right = onnx.to_onnx
    moved = replace(model, predictor=replace(model.predictor, offsets=np.array([0.5], np.float32)))  # type: ignore[type-var]
    monkeypatch.setattr(onnx, "to_onnx", lambda _: right(moved))
    with pytest.raises(ModelError, match="Nothing was written"):
        export.export(tmp_path / "model", tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_differences_are_relative_in_any_unit_of_the_target() -> None:
    expected = np.array([[1e-12], [-3e-12]])
    assert export.largest_difference(expected, 2.0 * expected) == pytest.approx(1.0)
    assert export.largest_difference(0.0 * expected, 0.0 * expected) == 0.0


def test_the_format_of_a_function_call_is_that_of_the_ending(tmp_path: Path) -> None:
    save_model(of_times()[0], tmp_path / "model")
    for format in export.FORMATS:
        assert export.export(tmp_path / "model", tmp_path / f"model.{format}")["format"] == format
    assert (tmp_path / "model.skops").read_bytes().startswith(b"PK")
    with pytest.raises(ConfigError, match=r"model\.pkl does not end in \.onnx or \.skops"):
        export.export(tmp_path / "model", tmp_path / "model.pkl")


@pytest.mark.parametrize("format", export.FORMATS)
def test_file_that_does_not_round_to_float32_is_not_written(
    format: export.Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_model(of_times()[0], tmp_path / "model")
    from okl.models import onnx, sklearn

    monkeypatch.setattr(onnx, "_rounded", lambda graph, value: value)
    monkeypatch.setattr(sklearn, "_rounding", list)
    with pytest.raises(ModelError, match="Nothing was written"):
        export.export(tmp_path / "model", tmp_path / "model.out", format)
    monkeypatch.undo()
    assert export.export(tmp_path / "model", tmp_path / "model.out", format)["largest_difference"] < 1e-5
