"""okl compared with the systems that its users would use instead: seconds to a given accuracy, and memory.

A *set* is a table with a seeded split; an *entrant* is a method of a system with the configurations to try; a
*measurement* is one configuration fitted and scored, and one flat row of a Parquet data set.

`sweep` measures every configuration once. `duel` measures the fastest ones, okl's and others', that come near the best
accuracy of all, several times in turn; verdicts come from duels only.
"""
