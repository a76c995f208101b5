"""okl: large-scale kernel learning on Parquet, in one pass or to a certified optimum."""
