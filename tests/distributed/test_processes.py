from __future__ import annotations

import os
import subprocess
import sys

LOOK = """
import resource
from okl.distributed.processes import keep_freed_memory

def new_pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        bytes(b"x" * 2**20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

fresh = new_pages()
assert keep_freed_memory()
new_pages()
print(fresh, new_pages())
"""


def test_workers_of_dask_do_not_ask_the_system_for_each_array_anew() -> None:
    as_dask_starts_them = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", LOOK]
    found = subprocess.run(command, env=as_dask_starts_them, capture_output=True, text=True, check=True)
    fresh, kept = (int(word) for word in found.stdout.split())
    assert fresh > 20 * 100  # the data are such that it shows: 256 pages an array
    assert kept < fresh / 20
