"""Power of the verdict on reproduced papers: how many planted bugs does it distinguish from the correct code?

    python -m tests.benchmarks.mutants --data DIR [--only PATTERN] [--without w7a,a9a] [--work DIR]

Each mutant is one small change of a copy of okl, at least one for a learner of Lu et al., a model of Ito et al., SCS
and a method of constrained online optimisation. The cells of its sites, parts of tables, are run with it and without
it, judged by the same verdict: of Lu et al., all data sets at hand in 10 orders. Counted are cells that have
information and are reproduced without the change: a mutant is detected if one of them no longer is. A cell that a
mutant passes cannot tell its algorithm from a broken one. Such cells are printed as lines of okl/papers/frozen.toml,
which leaves them out of the headline. The power of the rule is measured on bugs that it does not know: a mutant counts
on the cells that no other mutant of its algorithms passes, and at most 10% of these may still be reproduced.

Code that no paper's cell runs is judged by tests: such a mutant is detected if its test fails with it, and not without.
Finished runs stay in the work folder.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from okl.papers.base import TableCell, code_digest, frozen_settings
from okl.papers.run import table_named

ROOT = Path(__file__).parents[2]
MOST_REPRODUCED = 0.1
Key = tuple[str, ...]


@dataclass(frozen=True)
class Site:
    """A part of a table: the cells that a mutant is judged on."""

    table: str
    datasets: tuple[str, ...]
    repeats: int
    whole: bool = False  # claims compare algorithms, so all are run

    def settings(self, algorithms: Sequence[str], data: str, out: str) -> dict[str, Any]:
        """Return the settings of the run."""
        chosen = () if self.whole else tuple(algorithms)
        values = {"table": self.table, "datasets": self.datasets, "repeats": self.repeats, "data": data, "out": out}
        return values | {"algorithms": chosen, "threads": 1}


SITES = {
    "two classes": Site("lu2016-table5", ("german", "spambase", "w7a", "a9a", "ijcnn1"), 10),
    "two classes, no budget": Site("lu2016-table5", ("german", "spambase", "w7a", "a9a"), 10),  # ijcnn1 takes long
    "several classes": Site("lu2016-table7", ("dna", "satimage", "letter", "mnist"), 10),
    "regression": Site("lu2016-table9", ("housing", "mg", "abalone", "parkinsons", "cadata"), 10),
    "nu-SVM": Site("ito2017-table4", ("australian", "breast-cancer", "heart"), 1),
    "nu-SVM constants": Site("ito2017-table5", ("breast-cancer", "liver-disorders"), 1),
    "logistic": Site("ito2017-table8", ("australian", "diabetes", "heart", "madelon"), 1),
    "MM-MPM": Site("ito2017-table10", ("australian", "diabetes", "heart"), 1),
    "SCS": Site("zhang2024-table1", ("breast cancer",), 3),
    "growth": Site("yi2021-table1", ("outwards",), 20),
    "linear programs": Site("yi2021-olp", ("x1=0", "x1=1"), 100, whole=True),
    "quadratic programs": Site("yi2021-oqp", ("x1=0", "x1=1"), 100, whole=True),
}


FURTHER = {"linear programs": ("growth",)}  # additional sites on which the methods of a site are judged


@dataclass(frozen=True)
class Mutant:
    """A planted bug: in a file below okl, `before` becomes `after`; it occurs once.

    site : of its cells, or the test that judges it; algorithms : whose cells count
    metrics : those that the changed code computes, none for all
    """

    bug: str
    site: str
    algorithms: tuple[str, ...]
    file: str
    before: str
    after: str
    metrics: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return algorithm, site and bug."""
        return f"{', '.join(self.algorithms)} ({self.site}): {self.bug}"

    @property
    def sites(self) -> tuple[str, ...]:
        """Return all sites whose cells count, none of a mutant that a test judges."""
        return () if "::" in self.site else (self.site, *FURTHER.get(self.site, ()))

    def applied(self, source: str) -> str:
        """Return the source with the bug; raise ValueError unless `before` occurs once."""
        if source.count(self.before) != 1:
            raise ValueError(f"{self.name}: {self.before!r} occurs {source.count(self.before)} times in {self.file}.")
        return source.replace(self.before, self.after)


BUDGET, MAINTENANCE, SGD = "compiled/budget.py", "compiled/budget_maintenance.py", "compiled/sgd.py"
ALGORITHMS, OCO = "papers/lu2016/tables.py", "compiled/oco.py"
_MISTAKE = "return step_size * seen.y if (seen.f >= 0.0) != (seen.y > 0.0) else 0.0"
_NEGATIVE = "return step_size * seen.y if seen.f >= 0.0 and seen.y < 0.0 else 0.0"
_UNIFORM = "    return int(draw_uniform(state.integers) * count)"
_GRADIENT = "    return -step_size * loss_slope(code, epsilon, seen.f, seen.y)"
_WRONG_CLASS = "        coefficients[seen.wrong, slot] -= value"
_FOGD_STEP = 'setting["step_size"] * n_frequencies'
_FULL = "    full = slot == rule.budget\n    if full:\n"
_FORGETS = "    if slot == budget:\n        slot, many"
_STOPS = f"    if slot == budget:\n        return\n{_FORGETS}"
_NEGATIVE_STEP = f"    return 0.0 if seen.y > 0.0 else{_GRADIENT[10:]}"
_MISTAKE_STEP = f"    return 0.0 if seen.f * seen.y > 0.0 else{_GRADIENT[10:]}"
_FOGD_ADDS = "class_weights[label] * g)\n            add_scaled(w_left, left, factor)"
_OLDER, _NEWER = (f"if marks[NUMBER, i] {sign} marks[NUMBER, oldest]:" for sign in "<>")
_PROJECTION = "    right = coefficients[seen.output]\n"
_NO_PROJECTION = f"{_PROJECTION}    factor = 0.0\n"
_CHEAPEST = "        slot = cheapest(memory[1], state.marks, count)\n        share = float(row[slot]) / own\n"
_CONSTRAINED, _DUAL = "tests/solvers/online/test_constrained.py", "tests/solvers/accelerated/test_dual.py"
_SHARES = "weights[wrong, :width], left, -factor)\n    add_scaled(weights[wrong, width:], right, -factor)"


def _mutants(site: str, *rows: tuple[str, ...]) -> list[Mutant]:
    return [
        Mutant(bug, site, (algorithm,), file, before, after, tuple(metrics))
        for algorithm, bug, file, before, after, *metrics in rows
    ]


MUTANTS = [
    *_mutants(
        "two classes, no budget",
        ("Perceptron", "learns negative rows only", BUDGET, _MISTAKE, _NEGATIVE),
        ("Perceptron", "learns within the margin", BUDGET, "(seen.f >= 0.0) != (seen.y > 0.0) else 0.0",
         "seen.f * seen.y < 1.0 else 0.0"),
        ("OGD", "learns negative rows only", BUDGET, _GRADIENT, _NEGATIVE_STEP),
        ("OGD", "learns after mistakes only", BUDGET, _GRADIENT, _MISTAKE_STEP),
    ),
    *_mutants(
        "two classes",
        ("RBP", "drops the newest support", BUDGET, _UNIFORM, "    return count - 1"),
        ("RBP", "drops the same support each time", BUDGET, _UNIFORM, "    return 0"),
        ("Forgetron", "stops learning when full", BUDGET, _FORGETS, _STOPS),
        ("Forgetron", "forgets the newest support", BUDGET, _OLDER, _NEWER),
        ("Forgetron", "learns negative rows only", BUDGET, _MISTAKE, _NEGATIVE),
        ("Projectron", "does not project", MAINTENANCE, _PROJECTION, _NO_PROJECTION),
        ("Projectron", "projects with half of the coefficients", MAINTENANCE,
         "        right[i] += factor * place[i]", "        right[i] += 0.5 * factor * place[i]"),
        ("Projectron++", "learns mistakes only", "solvers/online/strategies.py", "maintenance.Projection(1.0, 1.0)",
         "maintenance.Projection(1.0, -1.0)"),
        ("Projectron++", "does not project", MAINTENANCE, _PROJECTION, _NO_PROJECTION),
        ("BPA-S", "replaces slot 0 without compensation", MAINTENANCE, _CHEAPEST, "        slot = 0\n"),
        ("BPA-S", "has steps without a bound", MAINTENANCE, "return seen.y * min(aggressiveness, loss / own)",
         "return seen.y * 10.0 * loss / own"),
        ("BPA-S", "learns after mistakes only", MAINTENANCE,
         "    loss = 1.0 - seen.margin\n    if loss <= 0.0 or own",
         "    loss = -seen.margin\n    if loss <= 0.0 or own"),
        ("BOGD", "learns negative rows only", BUDGET, _GRADIENT, _NEGATIVE_STEP),
        ("BOGD", "drops the newest support", BUDGET, _UNIFORM, "    return count - 1"),
        ("BOGD", "stops learning when full", BUDGET, _FULL, f"{_FULL}        return\n"),
        ("FOGD", "learns negative rows only", SGD,
         _FOGD_ADDS, _FOGD_ADDS.replace("class_weights[label]", "(1 - label)")),
        ("FOGD", "step on the scaled map", ALGORITHMS, _FOGD_STEP, 'setting["step_size"]'),
        ("FOGD", "frequencies times the bandwidth", "kernels.py",
         "return rng.standard_normal((n_inputs, n_frequencies)) / self.bandwidth",
         "return rng.standard_normal((n_inputs, n_frequencies)) * self.bandwidth"),
        ("NOGD", "weights are lost with the map", "solvers/online/nystrom.py",
         "last = supports.coefficients.astype(np.float64) @ inverse",
         "last = -supports.coefficients.astype(np.float64) @ inverse"),
        ("NOGD", "map without the roots of the eigenvalues", "features/nystrom.py",
         "(np.sign(largest) / np.sqrt(eigenvalues))", "(np.sign(largest) * np.sqrt(eigenvalues))"),
    ),
    *_mutants(
        "several classes",
        ("Perceptron", "the wrong class is the first other one", SGD, "scores[k] > scores[best]:",
         "scores[k] < -1e30:"),
        ("OGD", "learns after mistakes only", BUDGET, "return step_size if seen.margin < 1.0 else 0.0",
         "return step_size if seen.margin < 0.0 else 0.0"),
        ("RBP", "leaves the wrong class alone", BUDGET, _WRONG_CLASS, "        pass"),
        ("Forgetron", "stops learning when full", BUDGET, _FORGETS, _STOPS),
        ("Projectron", "does not project", MAINTENANCE, _PROJECTION, _NO_PROJECTION),
        ("BPA-S", "replaces slot 0 without compensation", MAINTENANCE, _CHEAPEST, "        slot = 0\n"),
        ("BOGD", "drops the newest support", BUDGET, _OLDER, _NEWER),
        ("FOGD", "leaves the wrong class alone", SGD,
         f"add_scaled({_SHARES}", "pass"),
        ("NOGD", "rank one", ALGORITHMS, "problem.sizes.rank, problem.n_outputs", "1, problem.n_outputs"),
    ),
    *_mutants(
        "regression",
        ("Norma", "the margin moves the wrong way", BUDGET, "floats[MARGIN] += towards", "floats[MARGIN] -= towards"),
        ("Norma", "does not decay", "solvers/online/strategies.py",
         "decay, share = 1.0 - self.step_size * self.regularisation",
         "decay, share = 1.0"),
        ("RBP", "drops the newest support", BUDGET, _UNIFORM, "    return count - 1"),
        ("Forgetron", "stops learning when full", BUDGET, _FORGETS, _STOPS),
        ("Projectron", "does not project", MAINTENANCE, _PROJECTION, _NO_PROJECTION),
        ("BOGD", "forgets the newest support", BUDGET, _OLDER, _NEWER),
        ("FOGD", "step on the scaled map", ALGORITHMS, _FOGD_STEP, 'setting["step_size"]'),
    ),
    *_mutants(
        "nu-SVM",
        ("linear", "an upper bound of twice its size", "solvers/accelerated/models/nusvm.py", "upper = share / self.nu",
         "upper = 2.0 * share / self.nu"),
        ("rbf", "classes of unequal totals", "solvers/accelerated/problem.py",
         "self.upper, self.plus, self.minus)\n\n\n", "self.upper, 0.6, 0.4)\n\n\n"),
        ("linear", "ten iterations at most", "papers/ito2017/work.py",
         "METHOD = Fapg(tolerance=1e-14,", "METHOD = Fapg(tolerance=1e-14, max_iterations=10,"),
    ),
    *_mutants(
        "nu-SVM constants",
        ("linear", "labels without their codes", "papers/ito2017/work.py",
         "codes = dataset.coded(rows.targets, kernel=kernel != \"linear\")", "codes = rows.targets"),
        ("rbf", "a bandwidth of n", "papers/ito2017/work.py",
         "bandwidth = math.sqrt(0.5 * rows.inputs.shape[1])", "bandwidth = math.sqrt(rows.inputs.shape[1])"),
    ),
    *_mutants(
        "logistic",
        ("logistic", "the entropy's slope halved", "solvers/accelerated/problem.py",
         "add_entropy_slopes(gradient, point, self.upper, self.cut)",
         "add_entropy_slopes(gradient, point, 2.0 * self.upper, self.cut)"),
        ("logistic", "C divided by the rows", "solvers/accelerated/models/logistic.py",
         "upper = self.C * weights_of(rows, sample_weight)",
         "upper = self.C * weights_of(rows, sample_weight) / rows.n_points"),
    ),
    *_mutants(
        "MM-MPM",
        ("mm_mpm", "one covariance for both classes", "solvers/accelerated/models/minimax.py",
         "square_root(of_class.covariance) for of_class in (moments.positive, moments.negative)",
         "square_root(of_class.covariance) for of_class in (moments.positive, moments.positive)", "relative_excess"),
        ("mm_mpm", "kappa_max of the summed covariances", "solvers/accelerated/models/minimax.py",
         "lambda t: 1.0 / inverse_form(positive / t + negative / (1.0 - t), apart)",
         "lambda t: 1.0 / inverse_form(positive + negative, apart)", "kappa_max"),
        ("mm_mpm", "second moments in place of covariances", "solvers/accelerated/problem.py",
         "        scatter: Doubles = weighted.T @ deviations\n",
         "        scatter: Doubles = block.T @ block\n", "kappa_max", "lipschitz"),
    ),
    *_mutants(
        "SCS",
        ("SCS", "five iterations at most", "papers/zhang2024/tables.py",
         "Scs(self.lam, gap=GAP),\n            lambda",
         "Scs(self.lam, gap=GAP, max_iterations=5),\n            lambda"),
        ("SCS", "steps of half their length", "solvers/subgradient/scs.py",
         "vector = self.point.vector.moved(step, direction.vector)\n",
         "step *= 0.5\n            vector = self.point.vector.moved(step, direction.vector)\n"),
        ("SCS", "the gap of a hundredth", "papers/zhang2024/tables.py", "GAP = 1e-4", "GAP = 1e-2"),
        ("SCS, paper's growth", "directions without the last one", "solvers/subgradient/scs.py",
         "vector = self._gradient.scaled(self._share - 1.0)", "vector = self._gradient.scaled(1.0 - self._share)"),
    ),
    *_mutants(
        "linear programs",
        ("Algorithm 1", "violations do not enter the queue", OCO, "        queue[i] += clipped\n", ""),
        ("Algorithm 1", "a tenth of the price of violations", OCO, "limits[i] = price * (queue[i] + clipped)",
         "limits[i] = 0.1 * price * (queue[i] + clipped)"),
        ("Algorithm 2", "experts are not weighed", OCO, "weights[i] *= math.exp(-rate * (regrets[i] - least))",
         "weights[i] *= math.exp(rate * (regrets[i] - least))"),
        ("Yu & Neely", "the queue forgets slack", OCO, "dual[i] = max(-scaled, dual[i] + scaled)",
         "dual[i] = max(0.0, 10.0 * scaled)"),
        ("Yuan & Lamperski", "violations are not clipped", OCO, "dual[i] = max(0.0, excess[i]) / second",
         "dual[i] = 0.1 * max(0.0, excess[i]) / second"),
        ("Jenatton", "multipliers do not decay", "solvers/oco/baselines.py",
         "return _stacked(first, last, steps, damping, 1.0 / ((rounds + 1.0) * damping))",
         "return _stacked(first, last, steps, 100.0 * damping, 1.0 / ((rounds + 1.0) * damping))"),
        ("Mahdavi", "the step of the multipliers squared", "solvers/oco/baselines.py",
         "return _stacked(first, last, step, self.damping * step, step)",
         "return _stacked(first, last, step, self.damping * step, 50.0 * step)"),
    ),
    *_mutants(
        "quadratic programs",
        ("Algorithm 1", "steps that do not shrink", "solvers/oco/methods.py",
         "rounds = schedules.round_numbers(first, last + 1)\n        sizes",
         "rounds = 0.0 * schedules.round_numbers(first, last + 1) + 50.0\n        sizes"),
    ),
    *_mutants(
        "nu-SVM",
        ("linear", "LIBSVM solves half of nu", "papers/ito2017/work.py", "NuSVC(nu=nu,", "NuSVC(nu=0.5 * nu,",
         "relative_excess"),
    ),
    *_mutants(
        "logistic",
        ("logistic", "LIBLINEAR stops after one pass", "papers/ito2017/work.py", '"max_iter": 1000} if dual',
         '"max_iter": 1} if dual', "slower_than_LIBLINEAR"),
    ),
    *_mutants(
        "MM-MPM",
        ("mm_mpm", "Clarabel solves without the covariances", "papers/ito2017/work.py",
         "np.append(-problem.difference, np.full(k, problem.kappa))", "np.append(-problem.difference, np.zeros(k))",
         "slower_than_Clarabel"),
    ),
    *_mutants(
        f"{_CONSTRAINED}::test_recoo_violates_less_on_the_way_to_the_same_error",
        ("RECOO", "has the prices of Algorithm 1", "solvers/online/constrained.py",
         "self.gain, self.share_rate, self.rectified)", "self.gain, self.share_rate, False)"),
    ),
    *_mutants(
        f"{_CONSTRAINED}::test_limits_in_a_nystrom_map_match_slow_twins",
        ("NOGD", "learns under limits with a tenth of the gain", "solvers/online/constrained.py",
         "self.kept.compiled(self.precision, self.gain,", "self.kept.compiled(self.precision, 0.1 * self.gain,"),
    ),
    *_mutants(
        "tests/solvers/online/test_tracking_learner.py::test_other_maps_are_tracked_in_blocks",
        ("NOGD", "tracks with one step size", "solvers/online/tracking.py", "feature_map.n_columns, self._step_sizes,",
         "feature_map.n_columns, self._step_sizes[:1] * len(self._step_sizes),"),
    ),
    *_mutants(
        f"{_DUAL}::test_projection_onto_norm_ball_is_the_nearest_point",
        ("p = 1", "thresholds too low", "solvers/accelerated/dual.py", "(np.cumsum(falling) - 1.0)",
         "(np.cumsum(falling) - 1.5)"),
    ),
    *_mutants(
        f"{_DUAL}::test_squared_hinge_in_a_ball_that_is_not_smooth_matches_a_quadratic_program",
        ("p = infinity", "gap by the same norm in place of the dual one", "solvers/accelerated/dual.py",
         "norm_of(slopes, dual_power(self.power))\n        gap", "norm_of(slopes, self.power)\n        gap"),
    ),
    *_mutants(
        "tests/solvers/subgradient/test_fitting.py::test_growth_of_the_paper_takes_only_steps_that_its_validation_rows_agree_to",
        ("SCS, paper's growth", "validation rows that must rise", "solvers/subgradient/fitting.py",
         "-(half + float(change[: self.n_validation].mean())) >= _ETA_1 * fall",
         "half + float(change[: self.n_validation].mean()) >= _ETA_1 * fall"),
    ),
]  # fmt: skip


# Runs: each in a new process, on a copy of okl.

_RUN = (
    "import json, sys; from okl.papers.run import reproduce; from okl.papers.settings import ReproduceSettings; "
    "print(json.dumps(reproduce(ReproduceSettings(**json.loads(sys.argv[1])))['cells']))"
)


@dataclass(frozen=True)
class Laboratory:
    """A work folder: a copy of okl, which has one bug at a time, and the cells of finished runs."""

    work: Path
    data: str
    without: frozenset[str] = frozenset()

    def site(self, name: str) -> Site:
        """Return a site without the data sets that are left out."""
        site = SITES[name]
        return replace(site, datasets=tuple(one for one in site.datasets if one not in self.without))

    def verdicts(self, site: str, algorithms: Sequence[str], mutant: Mutant | None = None) -> dict[Key, str]:
        """Return the verdicts of cells (of the correct code, those with information); empty if the run failed."""
        run = [] if SITES[site].whole else list(algorithms)  # a whole site has one run without a bug
        parts = [asdict(self.site(site)), run, mutant and asdict(mutant), *self._sources(site)]
        stored = self.work / f"{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]}.json"
        if not stored.exists():
            stored.write_text(json.dumps(self._cells(site, algorithms, mutant)), encoding="utf-8")
        quantities = {
            (case.dataset, case.algorithm, quantity.metric): quantity
            for case in table_named(SITES[site].table).cases
            for quantity in case.quantities
        }
        verdicts: dict[Key, str] = {}
        for values in json.loads(stored.read_text(encoding="utf-8")):
            cell = TableCell(**values)
            key = (cell.dataset, cell.algorithm, cell.metric)
            if cell.verdict and cell.algorithm in algorithms:  # judged again: a changed verdict rule needs no other run
                cell = cell if cell.difference is None else cell.compared()
                cell = replace(cell, rival=quantities[key].rival).judged(quantities[key].margin)
                if mutant or not cell.no_information:
                    verdicts[*key, str(cell.point)] = str(cell.verdict)
        return verdicts

    def _sources(self, site: str) -> list[Any]:
        """Return all that determines the numbers of a site except the data: sources and settings, not the verdict."""
        settings = {
            name: part
            for name, part in frozen_settings().items()
            if name not in ("causes", "margins", "not_told_apart")
        }
        code = tuple(part for part in table_named(SITES[site].table).code if part != "papers.base")
        return [code_digest(code), settings]

    def fails(self, mutant: Mutant) -> bool:
        """Return whether the test of a mutant fails with it, and passes without it."""
        return [self._test(mutant.site, planted) for planted in (None, mutant)] == [0, 1]

    def _test(self, test: str, mutant: Mutant | None) -> int:
        tree = self._plant(mutant)
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", test]
        environment = os.environ | {"PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": str(self.work / "numba")}
        return subprocess.run(command, env=environment, cwd=tree, capture_output=True, check=False).returncode

    def _plant(self, mutant: Mutant | None) -> Path:
        """Return the folder of a new copy of okl and its tests, with the bug."""
        tree = self.work / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        for part in ("okl", "tests", "flows"):
            shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", tree)
        if mutant is not None:
            path = tree / "okl" / mutant.file
            path.write_text(mutant.applied(path.read_text(encoding="utf-8")), encoding="utf-8")
        return tree

    def _cells(self, site: str, algorithms: Sequence[str], mutant: Mutant | None) -> Any:
        tree = self._plant(mutant)
        with tempfile.TemporaryDirectory(dir=self.work) as out:
            settings = self.site(site).settings(algorithms, self.data, f"{out}/run")
            machine_code = {"NUMBA_CACHE_DIR": str(self.work / "numba")}
            environment = os.environ | {"PYTHONPATH": str(tree), "OKL_HOME": out} | machine_code
            command = [sys.executable, "-c", _RUN, json.dumps(settings)]
            done = subprocess.run(command, env=environment, cwd=tree, capture_output=True, text=True, check=False)
        if done.returncode and mutant is None:
            raise RuntimeError(f"{SITES[site].table} failed without a bug: {done.stderr[-1000:]}")
        return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all mutants and print the power; return 1 where too many mutant cells count as reproduced."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.mutants", description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--only", default="*", help="pattern of names")
    parser.add_argument("--without", default="", help="data sets to leave out, which leaves a weaker verdict")
    parser.add_argument("--work", default=None)
    options = parser.parse_args(arguments)
    work = Path(options.work or tempfile.mkdtemp(prefix="okl-mutants-"))
    work.mkdir(parents=True, exist_ok=True)
    laboratory = Laboratory(work, options.data, frozenset(options.without.split(",")))
    judged = [Judged.of(laboratory, mutant) for mutant in MUTANTS if fnmatch.fnmatch(mutant.name, options.only)]
    of_cells = [one for one in judged if one.mutant.sites]
    good = {key for one in of_cells for key, verdict in one.right.items() if verdict == "reproduced"}
    passed = {key for one in of_cells for key in one.passed}
    tables: dict[str, list[str]] = {}
    for site, *key, _ in sorted(passed):
        tables.setdefault(SITES[site].table, []).append(", ".join(key))
    print(
        f"reproduced {len(good)} of {len({key for one in of_cells for key in one.right})}; {len(passed)} not told apart"
    )
    print(f"mutants detected {sum(one.detected for one in judged)} of {len(judged)}")
    n_reproduced, cells = sum(len(one.passed) for one in of_cells), sum(len(one.cells) for one in of_cells)
    print(f"{n_reproduced} of {cells} mutant cells count as reproduced before cells are left out")
    unseen_cells = [unseen(one, of_cells) for one in of_cells]
    n_reproduced, cells = (
        sum(len(passed) for passed, _ in unseen_cells),
        sum(len(remaining_cells) for _, remaining_cells in unseen_cells),
    )
    print(f"{n_reproduced} of {cells} where no other mutant passes; at most {MOST_REPRODUCED:.0%} may")
    print(f"[not_told_apart]\nbugs = {json.dumps(bugs_digest())}")
    for table, names in tables.items():
        print(f"{table} = {json.dumps(sorted(set(names)))}")
    return int(n_reproduced > MOST_REPRODUCED * cells)


def bugs_digest() -> str:
    """Return a digest of the bugs by their names: code that moves does not change it."""
    return hashlib.sha256(json.dumps([mutant.name for mutant in MUTANTS]).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Judged:
    """A mutant: verdicts of its cells without the bug, its reproduced cells, those still reproduced with the bug."""

    mutant: Mutant
    right: dict[Key, str]
    cells: frozenset[Key]
    passed: frozenset[Key]
    detected: bool

    @classmethod
    def of(cls, laboratory: Laboratory, mutant: Mutant) -> Judged:
        """Judge a mutant, and print the outcome."""
        right: dict[Key, str] = {}
        with_bug: dict[Key, str] = {}
        for site in mutant.sites:
            for verdicts, planted in ((right, None), (with_bug, mutant)):
                verdicts |= {(site, *k): v for k, v in laboratory.verdicts(site, mutant.algorithms, planted).items()}
        cells = {key for key, verdict in right.items() if verdict == "reproduced"}
        cells = {key for key in cells if key[3] in (mutant.metrics or key)}
        passed = {key for key in cells if with_bug.get(key) == "reproduced"}
        detected = len(passed) < len(cells) if mutant.sites else laboratory.fails(mutant)
        evidence = f"{len(cells) - len(passed)} of {len(cells)} cells" if mutant.sites else "by its test"
        print(f"{'detected' if detected else 'NOT detected'}: {evidence}  {mutant.name}", flush=True)
        return cls(mutant, right, frozenset(cells), frozenset(passed), detected)


def unseen(judged: Judged, others: Sequence[Judged]) -> tuple[frozenset[Key], frozenset[Key]]:
    """Return the cells that a mutant passes and all its cells, both without cells that another mutant passes."""
    seen = frozenset(key for other in others if other is not judged for key in other.passed)
    return judged.passed - seen, judged.cells - seen


if __name__ == "__main__":
    sys.exit(main())
