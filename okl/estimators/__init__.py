"""scikit-learn estimators: online kernel learners, nine models with certificates, the Fourier map as a transformer."""
