"""Zhang & Sen, The Stochastic Conjugate Subgradient Algorithm for Kernel SVM, 2024: Table 1 and Figures 1 and 2."""
