"""Online kernel learning on rows that change as they come: step sizes side by side, mixed by Fixed Share."""

from okl.online.tracking.learner import TrackingLearner
from okl.online.tracking.state import Tracked

__all__ = ["Tracked", "TrackingLearner"]
