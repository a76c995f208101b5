"""Online kernel learning that needs no tuning: bandwidths and step sizes side by side, weighed while they learn."""

from okl.online.experts.candidates import Candidates, draw_candidates
from okl.online.experts.learner import ExpertLearner
from okl.online.experts.schedule import Round, race_schedule
from okl.online.experts.state import Experts

__all__ = ["Candidates", "ExpertLearner", "Experts", "Round", "draw_candidates", "race_schedule"]
