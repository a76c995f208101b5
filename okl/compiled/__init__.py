"""Everything that numba compiles: arrays in, arrays out."""
