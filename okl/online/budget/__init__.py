"""Learners with at most a budget of support vectors: one file a strategy."""

from okl.online.budget.learner import BudgetLearner, check_budget
from okl.online.budget.rbp import RandomizedBudgetPerceptron
from okl.online.budget.state import BudgetState
from okl.online.budget.strategy import BudgetStrategy

__all__ = [
    "BudgetLearner",
    "BudgetState",
    "BudgetStrategy",
    "RandomizedBudgetPerceptron",
    "check_budget",
]
