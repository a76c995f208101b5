"""NOGD and its peer, scikit-learn's Nystroem with SGDClassifier; and kernel rows alone."""

from __future__ import annotations

from time import perf_counter

import numpy as np
from sklearn.kernel_approximation import Nystroem
from threadpoolctl import threadpool_limits

from okl.compiled.budget import COUNT, SupportArrays, used_width
from okl.compiled.jit import compiled
from okl.compiled.kernels import KernelRule, kernel_row
from okl.data.execution import Rows
from okl.foundation.types import FloatArray, Precision
from okl.kernels import Gaussian
from okl.losses import Hinge
from okl.solvers.online.nystrom import NOGDLearner
from tests.benchmarks.fogd_peers import Peer, Run, learn_in_batches


def nogd_peer(bandwidth: float, budget: int, rank: int) -> Peer:
    """Return okl's learner, exact row by row; it finds and decomposes landmarks during training."""

    def run(rows: Rows, step_size: float) -> Run:
        precision: Precision = "float32" if rows.inputs.dtype == np.float32 else "float64"
        n_inputs = rows.inputs.shape[1]
        learner = NOGDLearner(Gaussian(bandwidth), n_inputs, Hinge(), step_size, budget, rank, precision=precision)
        start = perf_counter()
        progress = learner.learn(learner.start(), rows).progress
        return Run(perf_counter() - start, progress.error, progress.updates / progress.rows)

    return run


def nystroem_peer(bandwidth: float, n_landmarks: int) -> Peer:
    """scikit-learn in batches of 256 rows on one thread of BLAS.

    Drawing and decomposing its landmarks beforehand, and predicting each batch before it is learnt, are not timed. Its
    map keeps the full rank of its landmarks.
    """

    def run(rows: Rows, step_size: float) -> Run:
        nystroem = Nystroem(gamma=0.5 / bandwidth**2, n_components=n_landmarks, random_state=0)
        nystroem.fit(rows.inputs[:4096])
        with threadpool_limits(1):
            return learn_in_batches(nystroem, rows, step_size)

    return run


@compiled
def rows_alone(arrays: SupportArrays, inputs: FloatArray, kernel: KernelRule) -> float:
    """Compute kernel rows of all inputs with the supports; return a number that depends on all of them."""
    row, supports = arrays.row[: used_width(arrays.integers[COUNT])], arrays.supports
    total = 0.0
    for index in range(inputs.shape[0]):
        kernel_row(row, supports, inputs[index], kernel)
        total += row[index % row.shape[0]]
    return total
