"""Projections onto the sets of the dual problems, and the proxes of the primal ones."""

from okl.accelerated.projections.balls import align_with, dual_norm, project_ball, project_ball_pair
from okl.accelerated.projections.hyperplane import (
    Projected,
    project_box_hyperplane,
    project_truncated_simplex,
    project_truncated_simplex_pair,
)
from okl.accelerated.projections.lines import ShardSums
from okl.accelerated.projections.prepared import PreparedSet, ProjectedPair, hyperplane_set, pair_set
from okl.accelerated.projections.rivals import RIVALS, Rival, project_box_hyperplane_by
from okl.accelerated.projections.sharded import (
    MultiplierSearch,
    Question,
    merge_sums,
    multiplier_sums,
    write_projection,
)
from okl.accelerated.projections.threshold import soft_threshold

__all__ = [
    "RIVALS",
    "MultiplierSearch",
    "PreparedSet",
    "Projected",
    "ProjectedPair",
    "Question",
    "Rival",
    "ShardSums",
    "align_with",
    "dual_norm",
    "hyperplane_set",
    "merge_sums",
    "multiplier_sums",
    "pair_set",
    "project_ball",
    "project_ball_pair",
    "project_box_hyperplane",
    "project_box_hyperplane_by",
    "project_truncated_simplex",
    "project_truncated_simplex_pair",
    "soft_threshold",
    "write_projection",
]
