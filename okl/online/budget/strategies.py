"""Every strategy by its name, as tables and options have it."""

from __future__ import annotations

from okl.online.budget.bogd import BoundedGradientDescent, SampledGradientDescent
from okl.online.budget.bpa import BPANearest, BPAProjection, BPASimple
from okl.online.budget.bsgd import BSGDMerging, BSGDRemoval
from okl.online.budget.budgetperceptron import BudgetPerceptron
from okl.online.budget.forgetron import Forgetron
from okl.online.budget.norma import Norma
from okl.online.budget.ogd import OnlineGradientDescent
from okl.online.budget.perceptron import Perceptron
from okl.online.budget.projectron import Projectron
from okl.online.budget.projectron_plus import ProjectronPlus
from okl.online.budget.rbp import RandomizedBudgetPerceptron
from okl.online.budget.strategy import BudgetStrategy
from okl.online.budget.tvm import TwinVectors

Strategy = BudgetStrategy | OnlineGradientDescent | Perceptron
STRATEGIES: dict[str, type[Strategy]] = {
    strategy.name: strategy
    for strategy in (
        *(Perceptron, OnlineGradientDescent, Norma, RandomizedBudgetPerceptron, Forgetron, Projectron, ProjectronPlus),
        *(BPASimple, BPANearest, BPAProjection, BoundedGradientDescent, SampledGradientDescent, BSGDRemoval),
        *(BSGDMerging, BudgetPerceptron, TwinVectors),
    )
}
