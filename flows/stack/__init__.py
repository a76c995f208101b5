"""The local stack: a Prefect server, a Dask scheduler, workers and a Prefect worker, in the background.

One supervisor starts them, restarts what dies, and ends them. `okl up`, `okl status` and `okl down` talk to it by files
and signals only, and import neither Prefect nor Dask.
"""
