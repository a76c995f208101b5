from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from okl.compiled.jit import cache_folder, compiled, one_blas_thread
from okl.compiled.sgd import count_binary
from okl.compiled.threads import borrowed_block, rows_per_block, run_threads
from okl.foundation.types import Integers


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_blas_uses_one_thread_inside_the_limit_and_its_own_number_outside() -> None:
    before = blas_threads()
    with one_blas_thread():
        assert set(blas_threads()) == {1}
        with one_blas_thread():
            pass
        assert set(blas_threads()) == {1}
    assert blas_threads() == before


def test_blas_limit_holds_until_the_last_user_leaves() -> None:
    before = blas_threads()
    first, second = ExitStack(), ExitStack()
    first.enter_context(one_blas_thread())
    second.enter_context(one_blas_thread())
    first.close()
    assert set(blas_threads()) == {1}
    second.close()
    assert blas_threads() == before


def test_machine_code_is_kept_where_it_can_be_written_and_its_first_use_prints_one_line(tmp_path: Path) -> None:
    assert cache_folder().is_dir()
    command = (
        "import numpy as np\n"
        "from okl.compiled import jit\n"
        "jit.SILENT_SECONDS = 0.0\n"
        "from okl.compiled.budget import weighted\n"
        "for dtype in (np.float32, np.float64):\n"
        "    weighted(np.ones(2, dtype=dtype), np.ones(2, dtype=dtype))\n"
        "print(jit.cache_folder(), jit.config.CACHE_DIR, sep='\\n')"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for expected in (1, 0):
        done = subprocess.run(
            [sys.executable, "-c", command], env=environment, capture_output=True, text=True, check=True
        )
        lines = done.stderr.splitlines()
        assert len(lines) == expected
        assert all(line.startswith("Compiling functions for their first use on this machine: ") for line in lines)
        assert all(f"cached in {tmp_path}" in line for line in lines)
        folder, numba_folder = done.stdout.split()
        assert Path(folder).parent == tmp_path
        assert numba_folder == str(tmp_path), "other users of numba keep their own folder"


def test_processes_that_need_the_same_function_compile_it_once(tmp_path: Path) -> None:
    command = (
        "import sys\n"
        "import numpy as np\n"
        "from numba.core import event\n"
        "from okl.compiled.budget import weighted\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "with event.install_recorder('numba:compile') as recorder:\n"
        "    weighted(np.ones(2), np.ones(2))\n"
        "print(len(recorder.buffer))"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", command], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for one in both:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in both:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    events = sorted(int(one.communicate()[0]) for one in both)
    assert events[0] == 0 < events[1]


def test_a_nested_function_is_called_by_compiled_ones_only() -> None:
    assert learnt_class(np.zeros(5, dtype=np.int64), np.zeros(2, dtype=np.int64), 0.5, 1.0) == 1
    for _ in range(2):  # also compiled by now
        with pytest.raises(TypeError, match="is for compiled callers only"):
            count_binary(np.zeros(5, dtype=np.int64), np.zeros(2, dtype=np.int64), 0.5, 1.0)


@compiled
def learnt_class(counts: Integers, class_counts: Integers, f: float, y: float) -> int:
    return count_binary(counts, class_counts, f, y)


def test_blocks_fit_the_cache_and_divide_256() -> None:
    assert rows_per_block(800, 4) == 256
    assert rows_per_block(10**5, 4) == 32
    for n_columns in (2, 100, 801, 2000, 10**4):
        for itemsize in (4, 8):
            assert 256 % rows_per_block(n_columns, itemsize) == 0


def test_buffers_are_lent_once_at_a_time_and_used_again() -> None:
    dtype = np.dtype("float32")
    with borrowed_block(8, (3, 5), dtype) as first, borrowed_block(8, (3, 5), dtype) as second:
        assert first.left.shape == (8, 3)
        assert first.right.shape == (8, 5)
        assert first.left.ctypes.data % 64 == 0
        assert first.left is not second.left
    with borrowed_block(8, (3, 5), dtype) as third:
        assert third.left is first.left or third.left is second.left


def test_an_error_of_any_thread_is_raised_once_all_have_ended() -> None:
    ended: list[int] = []

    def work(thread: int) -> int:
        if thread == 1:
            raise KeyError("thread 1")
        ended.append(thread)
        return thread

    with pytest.raises(KeyError, match="thread 1"):
        run_threads(3, work)
    assert sorted(ended) == [0, 2]
