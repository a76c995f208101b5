"""One item of the search: a model along its grid on a part of the rows, each solution the start of the next."""

from __future__ import annotations

from dataclasses import dataclass

from okl.accelerated.catalogue import has_own_bias
from okl.accelerated.fapg import Fapg
from okl.accelerated.operators import DenseRows
from okl.accelerated.paths import PathPoint, path
from okl.comparison.grids import Grid
from okl.comparison.minimaxpaths import minimax_path
from okl.comparison.sample import Sample
from okl.comparison.trials import Trial, judged, signs_of_classes, with_biases


@dataclass(frozen=True)
class PathItem:
    """Fit and judge some places of a grid.

    part : number of it; n_rows : the first of its training rows, which are learnt
    grid : of the model; chosen : indices of its places, rising
    method : of every fit; n_classes
    """

    part: int
    n_rows: int
    grid: Grid
    chosen: tuple[int, ...]
    method: Fapg
    n_classes: int

    @property
    def entrant(self) -> str:
        """The model's name."""
        return self.grid.model

    @property
    def cost(self) -> int:
        """Rows times places."""
        return self.n_rows * len(self.chosen)

    def run(self, sample: Sample) -> list[Trial]:
        """A trial for each of the places."""
        part = sample.part(self.part)
        features, targets = part.features[: self.n_rows], part.targets[: self.n_rows]
        signs = signs_of_classes(targets, self.n_classes)
        paths = [self._path(sample, DenseRows(features, sign), index) for index, sign in enumerate(signs)]
        trials = []
        for points in zip(*paths, strict=True):
            solutions = [point.solution for point in points]
            weights, own = [found.weights for found in solutions], [found.bias for found in solutions]
            fitted = with_biases(weights, own, has_own_bias(self.entrant), features, signs)
            trials.append(
                Trial(
                    judged(fitted, part.test_features, part.test_targets),
                    len(part.test_targets),
                    points[0].parameter if len(points) == 1 else None,
                    max(found.certificate.relative_gap for found in solutions),
                    sum(point.iterations for point in points),
                    sum(point.seconds for point in points),
                )
            )
        return trials

    def _path(self, sample: Sample, rows: DenseRows, class_index: int) -> list[PathPoint]:
        places = [self.grid.places[index] for index in self.chosen]
        if self.grid.parameter == "kappa":
            return minimax_path(self.entrant, sample, self.part, class_index, self.n_classes, places, self.method)
        high = self.grid.high(rows)
        values = [self.grid.value(place, class_index, rows.n_points, high) for place in places]
        return path(self.entrant, rows, values, self.method)
