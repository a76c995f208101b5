"""Random binning features: grids of random pitch; two rows are similar if they share cells.

z(x)'z(x') is the share of grids in which x and x' share a cell; its mean is exp(-||x - x'||_1 / bandwidth), the
Laplacian kernel. A hash of a cell's position gives its column and sign, so no list of cells is stored.

Source: Rahimi & Recht, NIPS 2007, Algorithm 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import okl
from okl.extensions import add_map
from okl.features.extension import Arrays
from okl.kernels import Kernel, Laplacian

CELLS = 32  # columns per grid


def draw(kernel: Kernel, n_inputs: int, n_columns: int, generator: np.random.Generator) -> dict[str, Any]:
    """Draw pitch and shift of each grid along each input, and multipliers for the hash."""
    if not isinstance(kernel, Laplacian):
        raise okl.ConfigError(
            f"binning is of the Laplacian kernel, but the kernel is {kernel.name}: --kernel laplacian."
        )
    n_grids = max(1, n_columns // CELLS)
    pitch = generator.gamma(2.0, kernel.bandwidth, (n_grids, n_inputs))
    factors = generator.integers(1, 2**62, (n_grids, n_inputs + 1)) | 1
    shift = pitch * generator.random(pitch.shape)
    return {"pitch": pitch, "shift": shift, "factors": factors, "columns": np.array([n_columns])}


def transform(arrays: Arrays, inputs: Any) -> Any:
    """Return features (rows, n_columns): per grid one entry +-1 / sqrt(grids), in the column of the row's cell."""
    pitch, shift, factors = arrays["pitch"], arrays["shift"], arrays["factors"].view(np.uint64)
    n_grids, n_columns = len(pitch), int(arrays["columns"][0])
    features = np.zeros((len(inputs), n_columns), dtype=inputs.dtype)
    rows, width = np.arange(len(inputs)), n_columns // n_grids
    for grid in range(n_grids):
        places = np.floor((inputs - shift[grid]) / pitch[grid]).astype(np.int64).view(np.uint64)
        mixed = (places * factors[grid, 1:]).sum(axis=1, dtype=np.uint64) + factors[grid, 0]
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
        columns = grid * width + ((mixed >> np.uint64(33)) % np.uint64(width)).astype(np.int64)
        features[rows, columns] = np.where(mixed >> np.uint64(63), 1.0, -1.0) / np.sqrt(n_grids)
    return features


add_map("binning", draw=draw, transform=transform)
