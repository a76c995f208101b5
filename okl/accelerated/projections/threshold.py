"""Soft thresholding, the prox of the l1 norm."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from okl.accelerated.projections.checked import check_point
from okl.compiled.blocks import as_compiled
from okl.compiled.projectionsthreshold import shrink
from okl.errors import ConfigError, DataError
from okl.types import FloatArray


def soft_threshold(out: FloatArray, point: FloatArray, threshold: ArrayLike) -> None:
    """Overwrite out by sign(point) max(0, |point| - threshold).

    argmin_a sum_i threshold_i |a_i| + 1/2 ||a - point||^2

    Parameters
    ----------
    out, point : (n,), float32 or float64, of one precision; out may be the point itself
    threshold : a number or (n,), at least 0. For a step of length 1/L it is 1/L times the weight of the norm: the paper
        prints L

    Raises
    ------
    ConfigError : a threshold is negative or NaN
    DataError : shapes or precisions that do not fit

    Source: Ito, Takeda & Toh, JMLR 18(16), 2017, section 2.2 and appendix D, with 1/L.
    """
    point = check_point(out, point)
    thresholds = np.asarray(threshold, dtype=np.float64)
    if thresholds.ndim and thresholds.shape != point.shape:
        raise DataError(f"threshold has shape {thresholds.shape}, but the point has {len(point)} entries.")
    if not np.all(thresholds >= 0):
        raise ConfigError(f"threshold = {thresholds.min():g}, but it takes numbers of at least 0.")
    shrink(out, point, as_compiled(thresholds, np.float64) if thresholds.ndim else float(thresholds))
