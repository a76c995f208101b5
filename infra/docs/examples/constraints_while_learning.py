"""Limit the covariance between the scores and a sensitive column during training."""

import numpy as np

import okl


def main() -> None:
    """Fit the same rows with and without the limit."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 2000)
    inputs = rng.standard_normal((2000, 4))
    inputs[:, 0] += 0.8 * group  # an input that is correlated with the group
    labels = (inputs[:, 0] + inputs[:, 1] ** 2 + 0.3 * rng.standard_normal(2000) > 1.2).astype(int)
    sensitive = {"group": group.astype(float)}  # used by the limit only, not an input

    limit = "abs(covariance(group)) <= 0.01"
    free = okl.FOGDClassifier(n_frequencies=100, passes=5, random_state=0).fit(inputs, labels)
    held = okl.ConstrainedFOGDClassifier(constraints=[limit], radius=20.0, n_frequencies=100, random_state=0)
    held.fit(inputs, labels, sensitive)

    for name, model in {"free": free, "held": held}.items():
        covariance = np.cov(model.decision_function(inputs), group, bias=True)[0, 1]
        print(f"{name}: accuracy {model.score(inputs, labels):.3f}, covariance with the group {covariance:+.3f}")


if __name__ == "__main__":
    main()
