"""The price of a constraint: how right FOGD is along bounds of what its scores are held to."""
