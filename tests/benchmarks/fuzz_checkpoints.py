"""One case of fuzzing checkpoints: an unfinished run is damaged, then resumed as `okl train --resume` does it.

Most cases leave the digests as they are: the run ends with the same bits as an undisturbed one, or is refused in a
sentence with exit code 2. The others sign what they changed in the head, or a state that is nested deeply: the run may
then end otherwise, but in a sentence.
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
"""All but the last learn from a data set beside the run; the last one has its rows in its own folder."""
STEPS = {"mix": 2, "budget": 2, "local": 1, "c-svm": 7}  # others: 3; after the fifth, c-svm has files of shards
LATER = "later"
RESULTS = ("weights_sha256", "curve", "convergence")


def make_unfinished(folder: Path) -> None:
    """Interrupt each run, and write beside it the bits that it would have, unless this code has made them."""
    done = folder / "done"
    if done.exists() and done.read_text() == source_sha256():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pq.write_table(curved(1000), folder / "rows.parquet")
    asked = settings_from(IngestSettings, {"target": "y", "rows_per_shard": 250, "split_column": "split"}, "fuzz")
    ingest(folder / "rows.parquet", folder / "data", asked)
    for name, values in RUNS.items():
        place = folder / name
        data = folder / ("rows.parquet" if name == "source" else "data")
        needed = {"data": str(data), "threads": 1, "checkpoint_rounds": 1} | values
        whole = train(settings_from(TrainSettings, needed | {"out": str(place / "whole")}, "fuzz"))
        (place / "bits.json").write_text(json.dumps({key: whole.get(key) for key in RESULTS}))
        shutil.rmtree(place / "whole")
        with suppress(KeyboardInterrupt):
            later = settings_from(TrainSettings, needed | {"out": str(place / LATER)}, "fuzz")
            train(later, Breaker("learn", STEPS.get(name, 3) + 1))  # the stage itself counts as a step
        find_unfinished(str(place / LATER))
    done.write_text(source_sha256())


def checkpoint_case(rng: Rng, folder: Path, runs: Path) -> str:
    """Run a case in an empty folder; return what came of it in words."""
    names = sorted(path.name for path in runs.iterdir() if (path / "bits.json").exists())
    origin = runs / names[int(rng.integers(len(names)))]
    (whole,) = origin.glob(f".{LATER}.unfinished-*")
    broken = folder / whole.name
    shutil.copytree(whole, broken, symlinks=True)
    (newest,) = checkpoints_in(broken)
    how = [_damage, _damage, _damage, _remove, _stray, _edit_head, _nest_state][int(rng.integers(7))]
    signed = how(rng, broken, newest)
    (folder / "told.txt").write_text(f"{origin.name}: {how.__name__}")
    code, out, err = _resumed(folder / LATER)
    last = (err.splitlines() or [""])[-1]
    assert "Traceback" not in err, err
    if code == 0:
        result = json.loads(out.splitlines()[-1])
        same = {key: result.get(key) for key in RESULTS} == json.loads((origin / "bits.json").read_text())
        assert same or signed, "other bits, and not a word"
        return f"{'same' if same else 'other'} bits {how.__name__}"
    assert code == 2 or signed, f"exit code {code}: {err}"
    assert last.startswith("Error: "), err
    assert 25 < len(last) < 500, last
    assert last.endswith("."), last
    assert last.count(" is damaged: ") < 2, last
    assert "object at 0x" not in last, last
    assert _content(whole) != _content(broken), "a whole run was refused"
    return f"refused {how.__name__}: {code} {last}"


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
    """Return all that is in a folder, with the digests of files."""
    names = {str(path.relative_to(folder)): "" for path in folder.rglob("*")}
    return names | {str(path.relative_to(folder)): file_sha256(path) for path in _files(folder)}


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and "vectors-" not in str(path))


def _damage(rng: Rng, run: Path, newest: Path) -> bool:
    path = _chosen(rng, run)
    content = path.read_bytes()
    path.unlink()  # it may be a link to another one
    path.write_bytes(b"[" * 100_000 if rng.random() < 0.05 else damaged(content, rng))
    return False


def _remove(rng: Rng, run: Path, newest: Path) -> bool:
    path = _chosen(rng, run)
    content = path.read_bytes()
    path.unlink()
    _put(rng, path, content)
    return False


def _stray(rng: Rng, run: Path, newest: Path) -> bool:
    """Put something beside the checkpoint, or a broken one after it."""
    place = [run, run / CHECKPOINT, newest][int(rng.integers(3))]
    name = rng.choice([newest.name[:-6] + "000099", "x", "x-000001", newest.name + "~", "model-1", ".model.partial"])
    _put(rng, place / str(name), b"{}")
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
    with suppress(ValueError):  # what JSON cannot hold stays as it was
        (newest / HEAD).write_bytes(sealed(head))
    return True


def _nest_state(rng: Rng, run: Path, newest: Path) -> bool:
    (newest / STATE).write_bytes([b'{"list":[', b"["][int(rng.integers(2))] * int(10 ** rng.uniform(2, 5)))
    head = json.loads((newest / HEAD).read_text())
    head["files"][STATE] = file_sha256(newest / STATE)
    (newest / HEAD).write_bytes(sealed(head))
    return True
