"""Online convex optimisation with constraints that are to hold in the long run, for any convex loss and set.

`play` runs a method on rounds: constraints that stay, change or are drawn, with subgradients or values at two points.

A `Problem` is a set with constraints; a method chooses a point in each round and receives a subgradient.
`default_method`, for constraints that do not change, is RECOO; its docstring gives the figures.
"""

from okl.solvers.oco.baselines import ImprovedAder as ImprovedAder
from okl.solvers.oco.baselines import Jenatton as Jenatton
from okl.solvers.oco.baselines import Mahdavi as Mahdavi
from okl.solvers.oco.baselines import Polyak as Polyak
from okl.solvers.oco.baselines import Recoo as Recoo
from okl.solvers.oco.baselines import SinhaVaze as SinhaVaze
from okl.solvers.oco.baselines import VazeSinha as VazeSinha
from okl.solvers.oco.baselines import YuanLamperski as YuanLamperski
from okl.solvers.oco.baselines import YuNeely as YuNeely
from okl.solvers.oco.baselines import YuNeelyWei as YuNeelyWei
from okl.solvers.oco.baselines import default_method as default_method
from okl.solvers.oco.methods import Algorithm1 as Algorithm1
from okl.solvers.oco.methods import Algorithm2 as Algorithm2
from okl.solvers.oco.problem import ConvexConstraints as ConvexConstraints
from okl.solvers.oco.problem import ConvexLosses as ConvexLosses
from okl.solvers.oco.problem import LinearConstraints as LinearConstraints
from okl.solvers.oco.problem import Problem as Problem
from okl.solvers.oco.problem import QuadraticLosses as QuadraticLosses
from okl.solvers.oco.problem import deepest_point as deepest_point
from okl.solvers.oco.rounds import ConvexRounds as ConvexRounds
from okl.solvers.oco.rounds import LinearRounds as LinearRounds
from okl.solvers.oco.rounds import TwoPoint as TwoPoint
from okl.solvers.oco.runs import Growth as Growth
from okl.solvers.oco.runs import Played as Played
from okl.solvers.oco.runs import Traces as Traces
from okl.solvers.oco.runs import constraint_values as constraint_values
from okl.solvers.oco.runs import dynamic_optima as dynamic_optima
from okl.solvers.oco.runs import dynamic_regret as dynamic_regret
from okl.solvers.oco.runs import growth_exponent as growth_exponent
from okl.solvers.oco.runs import growth_interval as growth_interval
from okl.solvers.oco.runs import minorants as minorants
from okl.solvers.oco.runs import path_length as path_length
from okl.solvers.oco.runs import play as play
from okl.solvers.oco.runs import play_rounds as play_rounds
from okl.solvers.oco.runs import regret as regret
from okl.solvers.oco.runs import regret_certificate as regret_certificate
from okl.solvers.oco.runs import run_many as run_many
from okl.solvers.oco.runs import static_optimum as static_optimum
from okl.solvers.oco.runs import static_regret as static_regret
from okl.solvers.oco.runs import unmet_assumptions as unmet_assumptions
from okl.solvers.oco.runs import violation_of as violation_of
from okl.solvers.oco.schedules import Anytime as Anytime
from okl.solvers.oco.schedules import Bounds as Bounds
from okl.solvers.oco.schedules import KnownHorizon as KnownHorizon
from okl.solvers.oco.schedules import KnownPathLength as KnownPathLength
from okl.solvers.oco.schedules import StronglyConvex as StronglyConvex
from okl.solvers.oco.schedules import bounds_of as bounds_of
from okl.solvers.oco.schedules import constants_of as constants_of
from okl.solvers.oco.schedules import covered as covered
from okl.solvers.oco.schedules import expert_bounds as expert_bounds
from okl.solvers.oco.sets import Ball as Ball
from okl.solvers.oco.sets import Box as Box
from okl.solvers.oco.sets import Simplex as Simplex
