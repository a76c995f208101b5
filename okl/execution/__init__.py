"""Where work runs: in this process or on Dask."""
