"""The accelerated method on shards: vectors stay beside their rows, what crosses to the caller is short.

The method (okl.accelerated.fapg) sees scalars; `dual` and `primal` answer its verbs by rounds of `execution.sum`.
"""
