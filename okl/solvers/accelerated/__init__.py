"""Nine classification models solved by one accelerated proximal gradient method with a duality gap.

Source: Ito, Takeda & Toh, JMLR 18(16), 2017.
"""
