"""Nine classification models solved to a duality gap, by accelerated proximal gradients or by Newton's method.

Source: Ito, Takeda & Toh, JMLR 18(16), 2017.
"""
