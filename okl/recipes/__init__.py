"""Which learner the settings mean: a recipe for each solver by its name."""

from okl.recipes.certified import Certified, linear_alternative, make_accelerated, make_ridge, make_subgradient
from okl.recipes.online import check_recipe, linear_baseline, make_recipe
from okl.recipes.parts import class_weights

__all__ = [
    "Certified",
    "check_recipe",
    "class_weights",
    "linear_alternative",
    "linear_baseline",
    "make_accelerated",
    "make_recipe",
    "make_ridge",
    "make_subgradient",
]
