"""Pegasos in a Fourier map."""

from __future__ import annotations

from dataclasses import dataclass

from okl.estimators.classify import OnlineClassifier
from okl.estimators.parameters import Auto, number_or_auto, whole_number
from okl.losses import Loss
from okl.online.maps import FourierChoice
from okl.subgradient.pegasos import Average
from okl.subgradient.pegasoslearner import PegasosRecipe


@dataclass(kw_only=True, eq=False, repr=False)
class PegasosClassifier(OnlineClassifier):
    """A support vector machine in a Fourier map by steps of 1 / (lam t), for two classes or several; no bias.

    It goes down lam / 2 |w|^2 + mean hinge of the rows. Inputs should be of like scale: put a StandardScaler before it.

    Parameters
    ----------
    lam : float > 0
    batch : rows a step, a power of two up to 256
    project : whether steps end in the ball |w| <= lam^(-1/2)
    average : of the weights: "none", "uniform", or "later", where later ones count more
    n_frequencies, kernel, map, bandwidth : as in FOGDClassifier
    passes, shuffle, precision, n_jobs, random_state : as in OnlineEstimator

    Attributes
    ----------
    classes_, chosen_, learner_, state_, n_features_in_, feature_names_in_ : as in FOGDClassifier

    Source: Shalev-Shwartz, Singer, Srebro & Cotter, Mathematical Programming 127, 2011, Figures 1 and 2.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> X, y = make_circles(400, noise=0.1, factor=0.5, random_state=0)
    >>> bool(PegasosClassifier(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.95)
    True
    """

    lam: float = 1e-3
    batch: int = 1
    project: bool = False
    average: Average = "later"
    n_frequencies: int = 400
    kernel: str = "gaussian"
    map: str = "independent"
    bandwidth: float | Auto = "auto"

    def _recipe(self, loss: Loss, class_weights: tuple[float, ...] | None, n_rows: int | None) -> PegasosRecipe:
        maps = FourierChoice(
            self.kernel,
            number_or_auto("bandwidth", self.bandwidth),
            whole_number("n_frequencies", self.n_frequencies),
            self.map,
        )
        batch, project = whole_number("batch", self.batch), bool(self.project)
        return PegasosRecipe(maps, loss, float(self.lam), batch, project, self.average)
