"""A solver for a data set that nobody has looked at: candidates race on a sample, the winner is sized by a budget."""
