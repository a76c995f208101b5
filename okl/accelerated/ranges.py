"""Where the parameter of nu-SVM makes sense: the least nu, by a linear program.

kappa_max stands with the minimax models, nu_max with nu-SVM: they are formulas.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from okl.accelerated.operators import DenseRows, RowOperator, SparseRows
from okl.accelerated.weighting import weights_of
from okl.errors import ConfigError
from okl.types import FloatArray


def nu_min(rows: RowOperator, sample_weight: FloatArray | None = None, fit_intercept: bool = True) -> float:
    """The nu at and below which the reduced convex hulls of the classes meet, so that w = 0 is best.

    With t_i = weight_i / sum of weights, (14) has a dual point with A a = 0 if and only if nu is not above

    max { sum_i a_i : A a = 0, 0 <= a_i <= t_i, and sum_i s_i a_i = 0 with a bias },

    which is the least mean hinge loss, min over w and b of sum_i t_i max(0, 1 - s_i (<w, z_i> - b)), by duality. It is
    0 where a plane tells the classes apart.

    Parameters
    ----------
    rows : operator; points of a kernel matrix are taken to be independent, as those of distinct inputs are for
        strictly positive definite kernels: 0
    sample_weight : (m,) or None
    fit_intercept : whether there is a bias

    Returns
    -------
    nu_min, to about 1e-7; m bounded variables and n + 1 equations: seconds up to some 10,000 rows of 100 columns

    Raises
    ------
    ConfigError : the linear program was not solved

    Source: Crisp & Burges, NIPS 1999, on the geometry of nu-SVM; Ito et al., 2017, sections 3.2.4 and 5.
    """
    if not isinstance(rows, (DenseRows, SparseRows)):
        return 0.0
    weights = weights_of(rows, sample_weight)
    share = weights / weights.sum()
    equations = _equations(rows, fit_intercept)
    # variables of size 1: the solver's tolerances are absolute
    scale = float(share.max())
    bounds = np.stack([np.zeros(rows.n_points), share / scale], axis=1)
    found = linprog(
        -np.ones(rows.n_points), A_eq=equations, b_eq=np.zeros(equations.shape[0]), bounds=bounds, method="highs"
    )
    if found.status != 0:
        raise ConfigError(f"nu_min was not found: {found.message} Scale the columns, or choose a nu by trial.")
    return min(1.0, max(0.0, -float(found.fun) * scale))


def _equations(rows: DenseRows | SparseRows, fit_intercept: bool) -> sparse.csr_array:
    """A, and the signs below it with a bias; no entry of a row is larger than 1."""
    signed = sparse.csr_array(rows.rows, dtype=np.float64).multiply(rows.signs[:, np.newaxis])
    columns = sparse.csc_array(signed)
    largest: NDArray[np.float64] = np.asarray(np.abs(columns).max(axis=0).todense(), dtype=np.float64).ravel()
    kept = np.flatnonzero(largest)
    scaled = sparse.csr_array((columns[:, kept] / largest[kept]).T)
    return sparse.csr_array(sparse.vstack([scaled, rows.signs[np.newaxis]])) if fit_intercept else scaled
