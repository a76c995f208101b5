"""One case of fuzzing checkpoints: an unfinished run is damaged, then resumed as `okl train --resume` does it.

Most cases keep the digests: the run must end with the same bits as an undisturbed one, or be refused in a sentence with
exit code 2. The others sign their change of the head, or a deeply nested state: the run may then have another result or
exit code, but must end with a sentence.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from flows.cli import main
from okl.data.ingest.run import ingest
from okl.foundation.folders import CHECKPOINT, checkpoints_in
from okl.foundation.locations import file_sha256
from okl.foundation.settings import IngestSettings, settings_from
from okl.foundation.validation import sealed
from okl.runs.checkpoint import HEAD, STATE, find_unfinished, source_sha256
from okl.solvers.settings import TrainSettings
from tests.benchmarks.fuzz_bytes import damaged
from tests.benchmarks.fuzz_columns import Rng
from tests.benchmarks.fuzz_models import change_somewhere
from tests.rows import Breaker, curved, train

RUNS: dict[str, dict[str, Any]] = {
    "stream": {"frequencies": 20, "passes": 2},
    "mix": {"frequencies": 20, "passes": 2, "mode": "mix", "rounds": 4},
    "budget": {"solver": "bsgd-merging", "budget": 20},
    "c-svm": {"solver": "c-svm", "frequencies": 20, "method": "fapg", "tol": 1e-7},
    "l1-logistic": {"solver": "l1-logistic", "frequencies": 20, "method": "fapg"},
    "scs": {"solver": "scs", "frequencies": 20, "gap": 0.003, "lam": 1e-3},
    "local": {"solver": "local", "cell_rows": 100, "partitions": 3},
    "source": {"frequencies": 20, "passes": 2},
}
"""All but the last train on a data set outside of the run; the last one stores its rows in its own folder."""
STEPS = {"mix": 2, "budget": 2, "local": 1, "c-svm": 7}  # others: 3; after the fifth, c-svm has files of shards
LATER = "later"
RESULTS = ("weights_sha256", "curve", "convergence")


def make_unfinished(folder: Path) -> None:
    """Interrupt each run, and write the expected bits next to it, unless the same code has made them before."""
    done = folder / "done"
    if done.exists() and done.read_text() == source_sha256():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pq.write_table(curved(1000), folder / "rows.parquet")
    ingest_settings = settings_from(
        IngestSettings, {"target": "y", "rows_per_shard": 250, "split_column": "split"}, "fuzz"
    )
    ingest(folder / "rows.parquet", folder / "data", ingest_settings)
    for name, values in RUNS.items():
        run_folder = folder / name
        data = folder / ("rows.parquet" if name == "source" else "data")
        options = {"data": str(data), "threads": 1, "checkpoint_rounds": 1} | values
        complete = train(settings_from(TrainSettings, options | {"out": str(run_folder / "whole")}, "fuzz"))
        (run_folder / "bits.json").write_text(json.dumps({key: complete.get(key) for key in RESULTS}))
        shutil.rmtree(run_folder / "whole")
        with suppress(KeyboardInterrupt):
            unfinished_settings = settings_from(TrainSettings, options | {"out": str(run_folder / LATER)}, "fuzz")
            train(unfinished_settings, Breaker("learn", STEPS.get(name, 3) + 1))  # the stage itself counts as a step
        find_unfinished(str(run_folder / LATER))
    done.write_text(source_sha256())


def checkpoint_case(rng: Rng, folder: Path, runs: Path) -> str:
    """Run a case in an empty folder; return its outcome as text."""
    names = sorted(path.name for path in runs.iterdir() if (path / "bits.json").exists())
    origin = runs / names[int(rng.integers(len(names)))]
    (original,) = origin.glob(f".{LATER}.unfinished-*")
    damaged_run = folder / original.name
    shutil.copytree(original, damaged_run, symlinks=True)
    (newest,) = checkpoints_in(damaged_run)
    change = [_damage, _damage, _damage, _remove, _stray, _edit_head, _nest_state][int(rng.integers(7))]
    signed = change(rng, damaged_run, newest)
    (folder / "told.txt").write_text(f"{origin.name}: {change.__name__}")
    code, out, err = _resumed(folder / LATER)
    last = (err.splitlines() or [""])[-1]
    assert "Traceback" not in err, err
    if code == 0:
        result = json.loads(out.splitlines()[-1])
        same = {key: result.get(key) for key in RESULTS} == json.loads((origin / "bits.json").read_text())
        assert same or signed, "other bits, and not a word"
        return f"{'same' if same else 'other'} bits {change.__name__}"
    assert code == 2 or signed, f"exit code {code}: {err}"
    assert last.startswith("Error: "), err
    assert 25 < len(last) < 500, last
    assert last.endswith("."), last
    assert last.count(" is damaged: ") < 2, last
    assert "object at 0x" not in last, last
    assert _content(original) != _content(damaged_run), "a whole run was refused"
    return f"refused {change.__name__}: {code} {last}"


def _resumed(run: Path) -> tuple[int, str, str]:
    out, err, code = io.StringIO(), io.StringIO(), 0
    sys.argv = ["okl", "train", "--resume", str(run), "--threads", "1", "--checkpoint-seconds", "0", "--json"]
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, out.getvalue(), err.getvalue()


def _content(folder: Path) -> dict[str, str]:
    """Return all paths in a folder, with the digests of files."""
    names = {str(path.relative_to(folder)): "" for path in folder.rglob("*")}
    return names | {str(path.relative_to(folder)): file_sha256(path) for path in _files(folder)}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and "vectors-" not in str(path))


def _damage(rng: Rng, run: Path, newest: Path) -> bool:
    path = _chosen(rng, run)
    content = path.read_bytes()
    path.unlink()  # the file may be a link to another one
    path.write_bytes(b"[" * 100_000 if rng.random() < 0.05 else damaged(content, rng))
    return False


def _remove(rng: Rng, run: Path, newest: Path) -> bool:
    path = _chosen(rng, run)
    content = path.read_bytes()
    path.unlink()
    _put(rng, path, content)
    return False


def _stray(rng: Rng, run: Path, newest: Path) -> bool:
    """Put a file or folder next to the checkpoint, or a broken checkpoint after it."""
    folder = [run, run / CHECKPOINT, newest][int(rng.integers(3))]
    name = rng.choice([newest.name[:-6] + "000099", "x", "x-000001", newest.name + "~", "model-1", ".model.partial"])
    _put(rng, folder / str(name), b"{}")
    return False


def _put(rng: Rng, path: Path, content: bytes) -> None:
    kind = rng.choice(["none", "folder", "empty", "loop", "nowhere", "other"])
    if kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.touch()
    elif kind in ("loop", "nowhere"):
        path.symlink_to(path.name if kind == "loop" else "nowhere")
    elif kind == "other":
        path.write_bytes(content[::-1])


def _chosen(rng: Rng, run: Path) -> Path:
    """Return a file; in two of three cases one of a checkpoint."""
    files = _files(run / CHECKPOINT) if rng.random() < 2 / 3 else _files(run)
    return files[int(rng.integers(len(files)))]


def _edit_head(rng: Rng, run: Path, newest: Path) -> bool:
    head = json.loads((newest / HEAD).read_text())
    for _ in range(int(rng.integers(1, 3))):
        change_somewhere(rng, head)
    if rng.random() < 0.2:
        head["sizes"] = {"../../../stray.npy": 3}
    with suppress(ValueError):  # values that JSON cannot represent are not written
        (newest / HEAD).write_bytes(sealed(head))
    return True


def _nest_state(rng: Rng, run: Path, newest: Path) -> bool:
    (newest / STATE).write_bytes([b'{"list":[', b"["][int(rng.integers(2))] * int(10 ** rng.uniform(2, 5)))
    head = json.loads((newest / HEAD).read_text())
    head["files"][STATE] = file_sha256(newest / STATE)
    (newest / HEAD).write_bytes(sealed(head))
    return True
