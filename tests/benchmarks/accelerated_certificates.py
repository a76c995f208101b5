"""Certificates of five hundred random problems: `python -m tests.benchmarks.accelerated_certificates`.

Certified gaps against true ones, and the proven method against Lemma 5 and Theorem 7, for every model with and without
a bias; the suite holds a few of these problems.
"""

from __future__ import annotations

import sys

from tests.solvers.accelerated.certificate_cases import gap_violation, is_solved, proof_of, random_case
from tests.solvers.accelerated.model_cases import MAKERS

_ALLOWED = 1e-12  # of an objective, for rounding


def main(n_seeds: int = 36) -> None:
    """Print a line per model, then how many problems violate a claim."""
    print(f"{'model':24} solved  gap below true  above Lemma 5  share of Theorem 7  L / (eta_u L_f)")
    broken = total = 0
    for name in MAKERS:
        violation, above, share, steepest, solved = 0.0, 0.0, 0.0, 0.0, 0
        for seed in range(n_seeds):
            case = random_case(name, seed)
            below, proof = gap_violation(case, seed), proof_of(case)
            solved += is_solved(case)
            violation, above = max(violation, below), max(above, proof.above_ceiling)
            share, steepest = max(share, proof.share_of_bound), max(steepest, proof.lipschitz_share)
            fails = below > _ALLOWED or proof.above_ceiling > _ALLOWED
            broken += fails or proof.share_of_bound > 1.0 or proof.lipschitz_share > 1.0
            total += 1
        print(f"{name:24} {solved:2}/{n_seeds}  {violation:14.1e}  {above:13.1e}  {share:18.3f}  {steepest:15.3f}")
    print(f"{broken} of {total} problems break a claim (rounding allowed: {_ALLOWED:g} of the objective)")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
