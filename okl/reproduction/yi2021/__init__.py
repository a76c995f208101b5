"""Yi et al., Regret and Cumulative Constraint Violation Analysis, ICML 2021: the simulations of section 4."""
