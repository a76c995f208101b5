"""One case of fuzzing models: a saved model is damaged; it is refused in a sentence, or predicts as before.

Half of the cases keep the digests, as on a bad disk: every change must be noticed. The others sign their change, as a
person who edits a model might: the model may then have other predictions, but may raise only OklError.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import okl
from okl.foundation.errors import OklError
from okl.models.file import DESCRIPTION, WEIGHTS, save_model
from tests.benchmarks.fuzz_bytes import damaged
from tests.benchmarks.fuzz_columns import Rng
from tests.benchmarks.fuzz_ingest import check_sentence
from tests.conftest import learnable_table
from tests.data.mixed import mixed
from tests.models.models import CASES, N_INPUTS, raw_rows

TRAINED: dict[str, dict[str, Any]] = {
    "fogd": {"solver": "fogd", "frequencies": 20},
    "nogd": {"solver": "nogd", "budget": 30},
    "c-svm": {"solver": "c-svm", "frequencies": 10},
    "scs exact": {"solver": "scs", "map": "exact", "gap": 0.1},
    "budget": {"solver": "bsgd-merging", "budget": 20},
}
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 1e308, 2**31, 2**63, 10**30, "", "x", "float32", [], {}, [[]], [None], ["a", "a"],
    {"kind": 1}, float("nan"), float("inf"), "\ud800", "9" * 5000, [0] * 1000, "ü",
)  # fmt: skip


def make_models(folder: Path) -> None:
    """Save the models to damage, each with rows and its predictions for them, unless they exist."""
    if (folder / "done").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tables = {"mixed": pa.Table.from_pandas(mixed(400), preserve_index=False)}
    tables |= {task: learnable_table(task, 400) for task in ("binary", "multiclass", "regression")}
    trainings = [("binary", name, options) for name, options in TRAINED.items()]
    trainings += [(data, f"fogd {data}", TRAINED["fogd"]) for data in ("multiclass", "regression", "mixed")]
    for data, name, options in trainings:
        pq.write_table(tables[data], folder / f"{data}.parquet")
        ingest_options = {"target": "label" if data == "mixed" else "y", "scale": "standard"}
        ingest_options |= {"dates": "parts", "missing": "mean"} if data == "mixed" else {}
        model_folder = folder / name
        result = okl.train(folder / f"{data}.parquet", ingest=ingest_options, out=str(folder / "run"), **options)
        shutil.move(result["model"], model_folder)
        shutil.rmtree(folder / "run")
        _store_predictions(model_folder, tables[data].slice(0, 20).drop_columns([ingest_options["target"]]))
    for case in dict.fromkeys(CASES):
        model_folder = folder / f"{case.kind} {case.task} {case.precision}"
        save_model(case.model(), model_folder)
        _store_predictions(model_folder, pa.table({f"x{i}": column for i, column in enumerate(raw_rows(20).T)}))
    assert len(raw_rows(1).T) == N_INPUTS
    (folder / "done").touch()


def _store_predictions(model: Path, rows: pa.Table) -> None:
    pq.write_table(rows, model / "rows.parquet")
    (model / "predictions.json").write_text(json.dumps(predictions(model, model)))


def predictions(model: Path, rows: Path) -> list[Any]:
    """Return the scores and labels of a model for the stored rows."""
    loaded = okl.load(model)
    table = pd.read_parquet(rows / "rows.parquet")
    labels = loaded.predict(table)
    assert labels.shape == (20,), f"predictions of the shape {labels.shape}"
    return [loaded.scores(table).tolist(), labels.tolist()]


def model_case(rng: Rng, folder: Path, models: Path) -> str:
    """Run a case in an empty folder; return its outcome as text. Every exception except OklError is a finding."""
    names = sorted(path.name for path in models.iterdir() if path.is_dir())
    original = models / names[int(rng.integers(len(names)))]
    damaged_model = folder / "model"
    damaged_model.mkdir()
    for name in (DESCRIPTION, WEIGHTS):
        shutil.copyfile(original / name, damaged_model / name)
    change = [_damage, _damage, _edit, _edit, _reweigh, _remove][int(rng.integers(6))]
    signed = change(rng, damaged_model)
    (folder / "told.txt").write_text(f"{original.name}: {change.__name__}")
    same = all(
        (damaged_model / n).is_file() and (damaged_model / n).read_bytes() == (original / n).read_bytes()
        for n in (DESCRIPTION, WEIGHTS)
    )
    try:
        predicted = predictions(damaged_model, original)
    except OklError as error:
        check_sentence(error)
        assert not same, "a whole model was refused"
        return f"refused {change.__name__}: {error}"
    equal = json.dumps(predicted) == (original / "predictions.json").read_text()
    assert signed or equal, "other predictions, and not a word"
    assert signed or same, "changed bytes went unnoticed"
    return f"{'same' if equal else 'other'} predictions {change.__name__}"


def _damage(rng: Rng, model: Path) -> bool:
    path = model / (DESCRIPTION, WEIGHTS)[int(rng.integers(2))]
    content = path.read_bytes()
    path.write_bytes(_insert_bad_json(rng, content) if rng.random() < 0.2 else damaged(content, rng))
    return False


def _insert_bad_json(rng: Rng, content: bytes) -> bytes:
    """Insert bytes that break JSON parsers at a random position."""
    odd = (
        b"NaN",
        b"Infinity",
        b"\\ud800",
        b"[" * 100_000,
        b'{"a":' * 5000,
        b"9" * 5000,
        b"1e999",
        b"\xff",
        b'"',
        b",",
        b" " * 10,
    )
    position = int(rng.integers(len(content)))
    return content[:position] + odd[int(rng.integers(len(odd)))] + content[position + int(rng.integers(0, 4)) :]


def _remove(rng: Rng, model: Path) -> bool:
    path = model / (DESCRIPTION, WEIGHTS)[int(rng.integers(2))]
    path.unlink()
    kind = rng.choice(["none", "folder", "empty", "loop", "other"])
    if kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.touch()
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "other":
        shutil.copyfile(model / (WEIGHTS if path.name == DESCRIPTION else DESCRIPTION), path)
    return False


def _edit(rng: Rng, model: Path) -> bool:
    """Replace, remove or add one to three values somewhere in the description, and sign it."""
    description = json.loads((model / DESCRIPTION).read_text())
    for _ in range(int(rng.integers(1, 4))):
        change_somewhere(rng, description)
    sign(model, description)
    return True


def change_somewhere(rng: Rng, content: Any) -> None:
    """Change one value somewhere in nested JSON, in place."""
    while True:
        keys = list(content) if isinstance(content, dict) else list(range(len(content)))
        if not keys:
            return
        key = keys[int(rng.integers(len(keys)))]
        if isinstance(content[key], dict | list) and len(content[key]) and rng.random() < 0.85:
            content = content[key]
            continue
        kind = rng.choice(["odd", "remove", "add", "near"], p=[0.5, 0.15, 0.1, 0.25])
        if kind == "remove":
            del content[key]
        elif kind == "add" and isinstance(content, dict):
            content["more"] = _odd(rng)
        elif kind == "add":
            content.append(deepcopy(content[key]))
        elif kind == "near" and isinstance(content[key], int | float):
            content[key] = content[key] + int(rng.integers(-2, 3))
        elif kind == "near" and isinstance(content[key], str):
            content[key] = content[key][: int(rng.integers(len(content[key]) + 1))]
        else:
            content[key] = _odd(rng)
        return


def _odd(rng: Rng) -> Any:
    return deepcopy(ODD[int(rng.integers(len(ODD)))])


def sign(model: Path, description: dict[str, Any]) -> None:
    """Write a description with its valid digest."""
    description.pop("description_sha256", None)
    body = json.dumps(description, indent=1, ensure_ascii=False).encode(errors="surrogatepass")
    signed = description | {"description_sha256": hashlib.sha256(body).hexdigest()}
    (model / DESCRIPTION).write_bytes(json.dumps(signed, indent=1, ensure_ascii=False).encode(errors="surrogatepass"))


def _reweigh(rng: Rng, model: Path) -> bool:
    """Change the header or the numbers of the weights, and sign both files."""
    content = (model / WEIGHTS).read_bytes()
    size = int.from_bytes(content[:8], "little")
    header, numbers = json.loads(content[8 : 8 + size]), content[8 + size :]
    if rng.random() < 0.3:
        numbers = damaged(numbers, rng)
    else:
        name = list(header)[int(rng.integers(len(header)))]
        _change_header(rng, header, name)
    header_bytes = json.dumps(header, separators=(",", ":")).encode()
    header_bytes += b" " * (-len(header_bytes) % 8)
    content = len(header_bytes).to_bytes(8, "little") + header_bytes + numbers
    (model / WEIGHTS).write_bytes(content)
    description = json.loads((model / DESCRIPTION).read_text())
    sign(model, description | {"weights_sha256": hashlib.sha256(content).hexdigest()})
    return True


def _change_header(rng: Rng, header: dict[str, Any], name: str) -> None:
    """Change the header entry of one array."""
    entry = header[name]
    shape = entry.get("shape", [1])
    kind = rng.choice(["shape", "flat", "turn", "dtype", "name", "remove", "odd", "huge", "empty"])
    if kind == "shape":
        change_somewhere(rng, header)
    elif kind == "flat":
        entry["shape"] = [int(np.prod(shape))]
    elif kind == "turn":
        entry["shape"] = shape[::-1]
    elif kind == "dtype":
        entry["dtype"] = str(rng.choice(["F64", "F32", "I32", "U32", "F16", "BF16", "BOOL", "F8_E4M3", "X"]))
        if entry["dtype"] == "F64" and shape:
            shape[-1] = shape[-1] // 2
        elif entry["dtype"] == "F32" and shape and rng.random() < 0.5:
            shape[-1] = shape[-1] * 2
    elif kind == "name":
        header[str(rng.choice(["weights", "map.frequencies", "x", ""]))] = header.pop(name)
    elif kind == "remove":
        del header[name]
    elif kind == "huge":
        entry["shape"] = [2**31, *shape[1:]] if rng.random() < 0.5 else [2**62, 4]
    elif kind == "empty":
        entry["shape"], entry["data_offsets"] = [0, *shape[1:]], [0, 0]
    else:
        change_somewhere(rng, entry)
