"""okl beside the systems that its users would take instead: seconds to a given accuracy, and memory.

A *set* is a table with a seeded split; an *entrant* is a method of a system with the configurations that it is tried
in; a *measurement* is one configuration fitted and scored, and one flat row of a Parquet data set.

`sweep` measures every configuration once. `duel` measures the fastest ones that come near the best accuracy of all,
okl's and others', several times in turn; verdicts are told from duels only.
"""
