"""Nine classification models, one accelerated proximal gradient method, every solution with a duality gap.

Source: Ito, Takeda & Toh, JMLR 18(16), 2017.
"""
