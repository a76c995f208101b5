"""okl: large-scale kernel learning on Parquet, in one pass or to a certified optimum.

Public names are listed in `__init__.pyi` and imported where they are first used: `import okl` loads no numpy, numba,
pyarrow or scikit-learn. `okl.oco` holds online convex optimisation with long-term constraints.

Examples
--------
>>> import okl
>>> okl.TrainSettings(data="data/covtype", solver="fogd").options.frequencies
400
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
