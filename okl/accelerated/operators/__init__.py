"""What a dual objective knows of the data: images of dual points, and gradients pulled back from them."""

from okl.accelerated.operators.dense import DenseRows
from okl.accelerated.operators.kernelmatrix import KernelMatrix
from okl.accelerated.operators.protocol import Operator, RowOperator, signs_of
from okl.accelerated.operators.sparse import SparseRows
from okl.accelerated.operators.spectrum import squared_norm_of
from okl.accelerated.operators.targets import TargetRows, target_rows
from okl.accelerated.operators.tiledkernel import KernelTiles, TiledKernel

__all__ = [
    "DenseRows",
    "KernelMatrix",
    "KernelTiles",
    "Operator",
    "RowOperator",
    "SparseRows",
    "TargetRows",
    "TiledKernel",
    "signs_of",
    "squared_norm_of",
    "target_rows",
]
