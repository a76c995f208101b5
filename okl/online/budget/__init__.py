"""Learners whose state is support vectors: with a budget, one file a strategy, and without."""

from okl.online.budget.bogd import BoundedGradientDescent, SampledGradientDescent
from okl.online.budget.bpa import BPANearest, BPAProjection, BPASimple
from okl.online.budget.bsgd import BSGDMerging, BSGDRemoval
from okl.online.budget.budgetperceptron import BudgetPerceptron
from okl.online.budget.forgetron import Forgetron
from okl.online.budget.growing import GrowingLearner, GrowingState, GrowingStrategy
from okl.online.budget.learner import BudgetLearner, check_budget
from okl.online.budget.norma import Norma
from okl.online.budget.ogd import OnlineGradientDescent
from okl.online.budget.perceptron import Perceptron
from okl.online.budget.projectron import Projectron
from okl.online.budget.projectron_plus import ProjectronPlus
from okl.online.budget.rbp import RandomizedBudgetPerceptron
from okl.online.budget.state import BudgetState
from okl.online.budget.strategy import BudgetStrategy
from okl.online.budget.tvm import TwinVectors

__all__ = [
    "BPANearest",
    "BPAProjection",
    "BPASimple",
    "BSGDMerging",
    "BSGDRemoval",
    "BoundedGradientDescent",
    "BudgetLearner",
    "BudgetPerceptron",
    "BudgetState",
    "BudgetStrategy",
    "Forgetron",
    "GrowingLearner",
    "GrowingState",
    "GrowingStrategy",
    "Norma",
    "OnlineGradientDescent",
    "Perceptron",
    "Projectron",
    "ProjectronPlus",
    "RandomizedBudgetPerceptron",
    "SampledGradientDescent",
    "TwinVectors",
    "check_budget",
]
