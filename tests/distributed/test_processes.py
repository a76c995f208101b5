from __future__ import annotations

import os
import subprocess
import sys

SOURCE = """
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


def test_workers_reuse_freed_memory() -> None:
    environment = os.environ | {"MALLOC_TRIM_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", SOURCE]
    completed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    fresh, reused = (int(word) for word in completed.stdout.split())
    assert fresh > 20 * 100  # the arrays are large enough to show an effect: 256 pages each
    assert reused < fresh / 20
