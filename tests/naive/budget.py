"""Slow, obvious twins of the compiled strategies with a budget of simple removal, and of those without a budget."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from okl.foundation.types import FloatArray
from tests.naive.expansion import Expansion, RowResult

_MASK = 2**64 - 1


def draw_uniform(state: int) -> float:
    """Return the next SplitMix64 number after a state, in integer arithmetic."""
    bits = (state + 1) * 0x9E3779B97F4A7C15 & _MASK
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & _MASK
    bits ^= bits >> 31
    return float((bits >> 11) * 2.0**-53)


class Slots(Expansion):
    """An expansion whose supports are replaced in place, with exact kernel values of equal rows."""

    state = 0

    def draw(self) -> float:
        number = draw_uniform(self.state)
        self.state += 1
        return number

    def put(self, index: int, x: FloatArray, coefficients: FloatArray) -> None:
        if index == len(self.supports):
            self.add(x, coefficients)
        else:
            self.supports[index], self.births[index] = np.array(x), self.rows
            self.coefficients[index] = np.array(coefficients, dtype=np.float64)

    def scale(self, factor: float) -> None:
        self.coefficients = [factor * a for a in self.coefficients]

    def clip(self, largest: float) -> None:
        self.coefficients = [np.clip(a, -largest, largest) for a in self.coefficients]

    @property
    def oldest(self) -> int:
        return int(np.argmin(self.births))


def mistake_step(slots: Slots, seen: RowResult, epsilon: float, step_size: float) -> FloatArray:
    wrong = seen.loss > epsilon if slots.task == "regression" else seen.mistake
    return step_size * seen.direction if wrong else np.zeros(slots.n_outputs)


def gradient_step(slots: Slots, seen: RowResult, epsilon: float, step_size: float) -> FloatArray:
    if slots.task == "regression":
        return step_size * seen.loss * seen.direction if seen.loss > epsilon else np.zeros(1)
    return step_size * seen.direction if seen.loss > 0 else np.zeros(slots.n_outputs)


def learn_all(
    slots: Slots, inputs: FloatArray, targets: FloatArray, learn: Callable[[RowResult, FloatArray], None]
) -> list[RowResult]:
    results = []
    for x, y in zip(inputs, targets, strict=True):
        results.append(slots.judge(x, y))
        learn(results[-1], x)
    return results


def random_perceptron(
    slots: Slots, inputs: FloatArray, targets: FloatArray, epsilon: float, step_size: float
) -> list[RowResult]:
    def learn(seen: RowResult, x: FloatArray) -> None:
        step = mistake_step(slots, seen, epsilon, step_size)
        if step.any():
            slots.put(int(slots.draw() * slots.budget) if slots.full else len(slots.supports), x, step)

    return learn_all(slots, inputs, targets, learn)


def forgetron(
    slots: Slots, inputs: FloatArray, targets: FloatArray, epsilon: float, step_size: float, shrinks: bool
) -> list[RowResult]:
    spent, mistakes, labels = 0.0, 0, []

    def learn(seen: RowResult, x: FloatArray) -> None:
        nonlocal spent, mistakes
        step = mistake_step(slots, seen, epsilon, step_size)
        if slots.task == "binary" and seen.scores[0] == 0:
            step = step_size * seen.direction
        if not step.any():
            return
        mistakes += 1
        slots.add(x, step)
        labels.append(int(np.argmax(step)))
        if len(slots.supports) > slots.budget:
            output = labels[0]
            a, f = slots.coefficients[0][output], slots.scores(slots.supports[0])[output]
            size, mu = abs(a), np.sign(a) * f
            if shrinks:
                phi = largest_factor(size, mu, spent, mistakes)
                spent += (size * phi) ** 2 + 2 * size * phi * (1 - phi * mu)
                slots.scale(phi)
            slots.remove(0)
            del labels[0]

    return learn_all(slots, inputs, targets, learn)


def largest_factor(size: float, mu: float, spent: float, mistakes: int) -> float:
    """Return the largest phi in (0, 1] with an allowed cost, by the roots of the polynomial."""
    polynomial = np.array([size**2 - 2 * size * mu, 2 * size, spent - 15 / 32 * mistakes])
    if np.polyval(polynomial, 1.0) <= 0:
        return 1.0
    roots = np.roots(polynomial)
    return float(max(root.real for root in roots if abs(root.imag) < 1e-9 and 0 < root.real <= 1))


def shrinking_gradient(
    slots: Slots,
    inputs: FloatArray,
    targets: FloatArray,
    epsilon: float,
    step_size: float,
    regularisation: float,
    largest: float,
    make_room: Callable[[Slots], int],
) -> list[RowResult]:
    """Shrink all coefficients, then take the step; make_room : returns the slot that a full budget gives up."""

    def learn(seen: RowResult, x: FloatArray) -> None:
        step = gradient_step(slots, seen, epsilon, step_size)
        slots.scale(1 - step_size * regularisation)
        if step.any():
            slots.put(make_room(slots) if slots.full else len(slots.supports), x, step)
            slots.clip(largest * step_size)

    return learn_all(slots, inputs, targets, learn)


def remove_one(slots: Slots, rescale: bool, oldest: bool) -> int:
    index = slots.oldest if oldest else int(slots.draw() * slots.budget)
    slots.scale(slots.budget / (slots.budget - 1) if rescale and slots.budget > 1 else 1.0)
    return index


def removal_chances(slots: Slots) -> FloatArray:
    pairs = slots.pairs()
    weights = np.array([np.linalg.norm(a) * np.sqrt(slots.self_kernel(x)) for x, a in pairs])
    chances = np.maximum(0.0, 1 - (len(weights) - 1) * weights / weights.sum())
    return np.asarray(chances / chances.sum())


def remove_sampled(slots: Slots) -> int:
    chances = removal_chances(slots)
    index = int(np.searchsorted(np.cumsum(chances), slots.draw(), side="right"))
    stay_chances = [1.0 if i == index else 1 - p for i, p in enumerate(chances)]
    slots.coefficients = [a / q for a, q in zip(slots.coefficients, stay_chances, strict=True)]
    return index


def norma(
    slots: Slots,
    inputs: FloatArray,
    targets: FloatArray,
    margin: float,
    step_size: float,
    regularisation: float,
    nu: float | None,
) -> list[RowResult]:
    def learn(seen: RowResult, x: FloatArray) -> None:
        nonlocal margin
        beyond = seen.loss > margin if slots.task == "regression" else 1 - seen.loss < margin
        if nu is not None:
            towards = 1 if slots.task == "regression" else -1
            margin += towards * step_size * ((1 - nu) if beyond else -nu)
        slots.scale(1 - step_size * regularisation)
        if beyond:
            slots.put(slots.oldest if slots.full else len(slots.supports), x, step_size * seen.direction)

    return learn_all(slots, inputs, targets, learn)


def growing(
    slots: Slots, inputs: FloatArray, targets: FloatArray, epsilon: float, step_size: float, gradient: bool
) -> list[RowResult]:
    step_of = gradient_step if gradient else mistake_step

    def learn(seen: RowResult, x: FloatArray) -> None:
        step = step_of(slots, seen, epsilon, step_size)
        if step.any():
            slots.add(x, step)

    return learn_all(slots, inputs, targets, learn)


def budget_perceptron(
    slots: Slots, inputs: FloatArray, targets: FloatArray, step_size: float, margin: float
) -> list[RowResult]:
    """Run a budget perceptron; every update computes the scores of all supports again."""

    def margin_without(index: int) -> float:
        x, a = slots.supports[index], slots.coefficients[index]
        f = slots.scores(x) - slots.self_kernel(x) * a
        if slots.n_outputs == 1:
            return float(np.sign(a[0]) * f[0])
        true = int(np.argmax(a))
        return float(f[true] - max(f[k] for k in range(slots.n_outputs) if k != true))

    def learn(seen: RowResult, x: FloatArray) -> None:
        if 1 - seen.loss > margin:
            return
        index = len(slots.supports)
        if slots.full:
            leads = [margin_without(i) for i in range(index)]
            index = next(i for i, lead in enumerate(leads) if lead >= max(leads) - 1e-9)
        slots.put(index, x, step_size * seen.direction)

    return learn_all(slots, inputs, targets, learn)
