"""Certified regret of random streams of every task against optima of a cone solver.

    python -m tests.benchmarks.certified [STREAMS]

Prints, for FOGD and NOGD, how many streams have a true regret within bound and certificate, and for NOGD a least loss
of the kernel's functions above the floor; how many floors are 0; and the median of bound / regret. The same for FOGD
with constraints, compared with the best weights that satisfy them.
"""

from __future__ import annotations

import sys

import numpy as np

from tests.certificates.streams import LOSSES, check_stream


def main(streams: int) -> None:
    for name, nystrom, limited in (("fogd", False, False), ("nogd", True, False), ("fogd within limits", False, True)):
        for task in LOSSES:
            checked = [check_stream(task, seed, nystrom, limited) for seed in range(streams)]
            ratios = [stream.bound / stream.regret for stream in checked if stream.regret > 0.0]
            floors = f", {sum(bool(stream.kernel_vacuous) for stream in checked)} floors are 0" if nystrom else ""
            print(
                f"{name}, {task}: {sum(stream.covered for stream in checked)} of {streams} covered, "
                f"bound / regret {np.median(ratios):.2f}{floors}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
