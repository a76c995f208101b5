"""Fit a stream whose labels flip half way, with and without tracking."""

import numpy as np

import okl


def main() -> None:
    """Fit the stream in its order; predict each row before the update."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((6000, 3))
    signal = inputs[:, 0] + inputs[:, 1] ** 2 - 1
    signal[3000:] *= -1
    labels = (signal > 0).astype(int)

    for track in (False, True):
        model = okl.FOGDClassifier(n_frequencies=60, passes=1, shuffle=False, track=track, random_state=0)
        model.fit(inputs, labels)
        after = model.score(inputs[5500:], labels[5500:])
        print(f"track={track}: accuracy on the last 500 rows {after:.3f}")


if __name__ == "__main__":
    main()
