"""The decision between champion and challenger by paired tests on reserved rows."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from okl.data.dataset import Dataset, Schema, Shard
from okl.data.encoder import number_of_word
from okl.data.execution import Execution
from okl.data.values import codes_of, is_number, numbers
from okl.features.predictors import Predictor
from okl.foundation.errors import ConfigError, DataError
from okl.foundation.locations import readable
from okl.foundation.types import Criterion, Doubles, FloatArray, IntArray, Precision, Task
from okl.lifecycle.settings import RetrainSettings
from okl.lifecycle.shard_store import ShardRecord, ShardStore, prepared_as
from okl.metrics.calibration import log_losses, probabilities_of
from okl.metrics.criterion import TESTS, criterion_error, criterion_of, mcnemar, paired_t, scores_test
from okl.metrics.definitions import Tally, merge, merge_named, predicted_classes
from okl.models.inputs import class_indices
from okl.models.quality import HasLogits, logits_of, tally_of
from okl.report.format import CRITERION_NAMES, counted, criterion_value, number, p_text, scalar_metrics
from okl.report.retraining import SHARD
from okl.runs.baselines import ConstantPredictor
from okl.runs.calibrate import MOST_ROWS, TEST_ROWS, calibrated
from okl.runs.evaluate import scored_windows

if TYPE_CHECKING:
    from okl.lifecycle.champion import Challenger, ModelHistory

# Paired sums of two predictors, mergeable, overall and by slice.

ALL, NEWEST, BEFORE = "", "newest", "before"  # names of slices
MOST_VALUES = 20  # values of a column that define slices; a column with more is cut at its mean +- one spread


@dataclass(frozen=True, eq=False)
class PairedSums:
    """Sums over rows; a loss is 1 for a wrong class, the log loss, or the squared error in the target's unit.

    rows; first, second : sums of the losses; differences : sum of the squares of first minus second, row by row
    agreement : (K, K) of the first, rows of true class i predicted as j; for regression (2, 3) sums of x, x^2, x t and
        of t, t^2, 1, where x and t are its prediction and the target, from the reference's mean
    beyond : rows whose loss by the first is above a limit
    of_rare, rare_missed : rows of a rare class, and of these the rows that the first gives less than its usual share
    scored : blocks (rows, 2 n_outputs + 1) of the scores of the first, of the second, and the class; () if the
        criterion needs no scores
    """

    rows: int
    first: float
    second: float
    differences: float
    agreement: Doubles
    beyond: int = 0
    of_rare: int = 0
    rare_missed: int = 0
    scored: tuple[NDArray[np.float32], ...] = ()

    def plus(self, other: PairedSums) -> PairedSums:
        """Return the sums over the rows of both."""
        return PairedSums(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    @property
    def only_first(self) -> int:
        """Return rows of classes that the first alone gets wrong."""
        return round((self.differences + self.first - self.second) / 2)

    @property
    def only_second(self) -> int:
        """Return rows of classes that the second alone gets wrong."""
        return round((self.differences - self.first + self.second) / 2)


SliceSums = dict[str, PairedSums]
"""Sums by slice, ALL for all rows."""
Tallies = dict[str, Tally]
"""Tallies of both predictors, by FIRST and SECOND."""
FIRST, SECOND = "champion", "challenger"


@dataclass(frozen=True, eq=False)
class PairWork:
    """Work on a shard: score its rows once with two predictors, by slices (columns), with tallies if wanted.

    second_schema : schema by which the second reads the rows; None: that of the data
    limit : loss above which a row is counted; criterion : of the losses; None for mistakes or squared errors
    rare : index of a rare class, and the share of rows that it usually has; None for none
    """

    data: Dataset
    first: Predictor
    second: Predictor
    precision: Precision
    slices: tuple[str, ...] = ()
    limit: float = 0.5
    tallied: bool = False
    criterion: Criterion | None = None
    second_schema: Schema | None = None
    rare: tuple[int, float] | None = None

    def __call__(self, shard: Shard) -> tuple[SliceSums, Tallies]:
        """Return the sums of a shard, and the tallies if they are wanted."""
        schema = self.data.schema
        names = {column: self._values(shard, column) for column in self.slices}
        sums: SliceSums = {}
        tallies: dict[str, list[Tally]] = {FIRST: [], SECOND: []}
        done = 0
        predictors = {FIRST: self.first, SECOND: self.second}
        for raw_targets, scores in self._scored(shard, predictors):
            targets = np.asarray(raw_targets, dtype=np.float64)
            first, second = (self._losses(name, score, targets) for name, score in scores.items())
            if self.tallied:
                for name, blocks in tallies.items():
                    blocks.append(tally_of(schema, scores[name], targets, predictors[name]))
            block = slice(done, done + len(targets))
            done = block.stop
            masks = {ALL: np.ones(len(targets), dtype=bool)}
            for column, values in names.items():
                part = values[block]
                masks |= {f"{column} = {value}": part == value for value in np.unique(part)}
            missed = self._rare_missed(scores[FIRST], targets)
            if self.criterion in OF_SCORES:
                both = [score.reshape(len(targets), -1) for score in scores.values()]
                scored = np.column_stack([*both, class_indices(schema, targets)]).astype(np.float32)
            for name, mask in masks.items():
                own, other = first[mask], second[mask]
                pairs = PairedSums(
                    len(own),
                    float(own.sum()),
                    float(other.sum()),
                    float(np.square(own - other).sum()),
                    _agreement(schema, scores[FIRST][mask], targets[mask]),
                    int((own > self.limit).sum()),
                    int((missed[mask] >= 0).sum()),
                    int((missed[mask] == 1).sum()),
                    (scored[mask],) if self.criterion in OF_SCORES else (),
                )
                sums = merged(sums, {name: pairs})
        return sums, {name: merge(blocks) for name, blocks in tallies.items() if blocks}

    def _scored(
        self, shard: Shard, predictors: Mapping[str, Predictor]
    ) -> Iterator[tuple[FloatArray, dict[str, FloatArray]]]:
        """Yield targets and scores of both, by window; rows are read twice if each reads them by its own schema."""
        if self.second_schema in (None, self.data.schema):
            yield from scored_windows(self.data, shard, predictors, self.precision)
            return
        datas = {FIRST: self.data, SECOND: replace(self.data, schema=self.second_schema)}
        each = [scored_windows(datas[name], shard, {name: predictors[name]}, self.precision) for name in predictors]
        for (targets, first), (_, second) in zip(*each, strict=True):
            yield targets, first | second

    def _losses(self, name: str, scores: FloatArray, targets: Doubles) -> Doubles:
        """Return the loss of each row, (rows,); log losses are those of the probabilities that the model serves."""
        if self.data.schema.task == "regression":
            return np.asarray(np.square(scores - targets), dtype=np.float64)
        classes = class_indices(self.data.schema, targets)
        logits = logits_of(self.first if name == FIRST else self.second, scores)
        if self.criterion == "log-loss" and logits is not None:
            return log_losses(logits, classes)
        return np.asarray(predicted_classes(scores) != classes, dtype=np.float64)

    def _rare_missed(self, scores: FloatArray, targets: Doubles) -> IntArray:
        """Return, (rows,), 1 for a row of the rare class with a probability below its share, 0 above, -1 for others."""
        logits = None if self.rare is None else logits_of(self.first, scores)
        if self.rare is None or logits is None:
            return np.full(len(targets), -1)
        label, share = self.rare
        below = probabilities_of(logits)[:, label] < share
        return np.where(class_indices(self.data.schema, targets) == label, below.astype(np.int64), -1)

    def _values(self, shard: Shard, column: str) -> NDArray[Any]:
        """Return the name of each row's slice, (rows,), in the shard's order."""
        with readable(self.data.path(shard), shard.size_bytes, shard.sha256) as file:
            values = pq.read_table(file, columns=[column]).column(column).combine_chunks()
        return _names(self.data.schema, column, values)


def paired_sums(
    data: Dataset,
    shards: Sequence[Shard],
    first: Predictor,
    second: Predictor,
    precision: Precision,
    execution: Execution,
    limit: float = 0.5,
    rare: tuple[int, float] | None = None,
) -> SliceSums:
    """Return sums of two predictors over some shards, by slice; added up in the order of the shards."""
    work = PairWork(data, first, second, precision, limit=limit, rare=rare)
    return reduce(merged, (sums for sums, _ in execution.map(work, shards)), {})


def merged(first: Mapping[str, PairedSums], second: Mapping[str, PairedSums]) -> SliceSums:
    """Return sums of both, by slice."""
    return dict(first) | {name: first[name].plus(pairs) if name in first else pairs for name, pairs in second.items()}


def check_slices(schema: Schema, slices: Sequence[str]) -> None:
    """Raise ConfigError for a column that is neither an input nor a key."""
    for name in slices:
        if name not in (*schema.features, *schema.keys):
            raise ConfigError(
                f"slices has the column {name!r}, which is neither an input nor a key. Use another column, or make it "
                "a key when the model is created (ingest.keys)."
            )


def _agreement(schema: Schema, scores: FloatArray, targets: Doubles) -> Doubles:
    if schema.task == "regression":
        mean = schema.target_statistics.mean if schema.target_statistics else 0.0
        x, t = np.asarray(scores, dtype=np.float64) - mean, targets - mean
        return np.array([[x.sum(), (x * x).sum(), (x * t).sum()], [t.sum(), (t * t).sum(), float(len(t))]])
    n = len(schema.labels)
    true = (targets > 0 if schema.task == "binary" else targets).astype(np.int64)
    counts = np.bincount(true * n + predicted_classes(scores), minlength=n * n)
    return counts.reshape(n, n).astype(np.float64)


def _names(schema: Schema, column: str, values: pa.Array) -> NDArray[Any]:
    if not is_number(values.type):
        texts = pc.dictionary_encode(pc.fill_null(values.cast(pa.string()), "none"))
        _check_few(column, len(texts.dictionary))
        words = texts.dictionary.to_pylist()  # numbers are normalised, so that 01 and 1 are one group
        names = [word if (value := number_of_word(word)) is None else _number_name(value) for word in words]
        return np.array(names, dtype=str)[codes_of(texts)]
    raw = numbers(values).astype(np.float64)
    if column in schema.features:
        statistics = schema.feature_statistics[schema.features.index(column)]
        whole = statistics.maximum - statistics.minimum < MOST_VALUES and bool((raw == np.rint(raw)).all())
        if not whole:
            edges = statistics.mean + statistics.standard_deviation * np.array([-1.0, 0.0, 1.0])
            between = [f"{low:.4g} to {high:.4g}" for low, high in pairwise(edges)]
            names = [f"below {edges[0]:.4g}", *between, f"above {edges[2]:.4g}"]
            return np.array(names)[np.searchsorted(edges, raw)]
    each, index = np.unique(raw, return_inverse=True)
    _check_few(column, len(each))
    return np.array([_number_name(value) for value in each])[index]


def _number_name(value: float) -> str:
    """Return whole numbers with all digits, others with the digits of float32."""
    return f"{value:.0f}" if value == np.rint(value) and abs(value) < 2.0**53 else f"{value:.7g}"


def _check_few(column: str, n_values: int) -> None:
    if n_values > MOST_VALUES**2:
        raise DataError(
            f"The key {column!r} has {n_values:,} values in a shard, but slices take at most {MOST_VALUES**2}. "
            "Use a column with fewer values."
        )


# The decision: paired tests, a margin and a reason.
#
# Rows may change in time or not, which is unknown. "better" compares on the newest reserved rows first, those
# of the shards that the challenger has learned and the champion has not: there it must make fewer mistakes. Where that
# may be chance, it must not be worse on the reserved rows before by more than chance: a shard that is noise makes a
# challenger that is, as only a real change makes one that is clearly better on the newest rows and worse on those
# before.
#
# Each night's newest reserved rows are used for the first time if the night before was published. While
# challengers are rejected they are used again, with more: from the second use on, the k-th has level / (k (k + 1)),
# so that all of them together spend one and a half times the level at most.

FEWEST_ROWS = 30  # of a slice that counts
OF_SCORES = ("balanced-accuracy", "auc", "average-precision")
"""Criteria that need the scores of all rows at once."""
RELATIVE = ("squared-error", "log-loss")
"""Criteria whose margins are shares of the champion's error."""


@dataclass(frozen=True)
class PairedTest:
    """Champion and challenger on the same rows.

    champion, challenger : errors by the criterion, less is better: mistake rate, mean squared error in the target's
        unit, log loss of the probabilities that are served, or 1 less an area
    gain : the former minus the latter, less the allowance for a calibration on these rows
    p_better, p_worse : one-sided p-values that the challenger is better, or worse
    """

    rows: int
    champion: float
    challenger: float
    gain: float
    p_better: float
    p_worse: float


@dataclass(frozen=True)
class PublishRule:
    """Rule by which a challenger is published.

    needed : "better": better by the margin on the newest rows, and clearly so, or on those before not clearly worse;
        "clearly better": on all of them, by the margin, and that is none of chance; "not worse": on all of them not
        worse by more than the margin, and what it is worse by may be chance
    margin : of the error; of squared error and log loss as a share of the champion's
    level : of the tests; slice_margin : by which no slice may be worse beyond chance, as the margin
    shards : whether each shard is such a slice; otherwise shards are only reported, as a model that follows a change
        forgets earlier rows
    """

    needed: Literal["better", "clearly better", "not worse"] = "better"
    margin: float = 0.0
    level: float = 0.05
    slice_margin: float = 0.02
    shards: bool = False


@dataclass(frozen=True)
class Decision:
    """Decision and its reason.

    kind : "publish" or "keep"; reason : one sentence; test : by which; overall : of all rows; slices : by name
    worse_slices : names of those that are worse beyond chance and margin
    worse_than_constant : whether the challenger is worse than a constant prediction, and so is never published
    newest, before : of the rows of shards that the challenger alone has learned, and of those before
    criterion : of the errors; None in records of earlier releases
    after_drift : whether only rows since a drift were compared
    """

    kind: Literal["publish", "keep"]
    reason: str
    test: str
    overall: PairedTest | None
    slices: Mapping[str, PairedTest]
    worse_slices: tuple[str, ...] = ()
    newest: PairedTest | None = None
    before: PairedTest | None = None
    worse_than_constant: bool = False
    criterion: Criterion | None = None
    after_drift: bool = False

    @property
    def publish(self) -> bool:
        return self.kind == "publish"

    def as_json(self) -> dict[str, Any]:
        """Return the decision for lineage and report."""
        return asdict(self)


def paired_test(
    task: Task, pairs: PairedSums, criterion: Criterion | None = None, allowance: float = 0.0
) -> PairedTest:
    """Compare two predictors, the champion first, by their sums or their scores; parameters as in `apply_rule`."""
    if criterion in OF_SCORES:
        table = np.concatenate(pairs.scored).astype(np.float64)
        n_outputs, classes = table.shape[1] // 2, table[:, -1].astype(np.int64)
        both = table[:, :n_outputs], table[:, n_outputs:-1]
        first, second = (scores[:, 0] if n_outputs == 1 else scores for scores in both)
        champion, challenger = (criterion_error(criterion, scores, classes) for scores in (first, second))
        test = scores_test(criterion, first, second, classes)
    else:
        n = max(1, pairs.rows)
        champion, challenger = pairs.first / n, pairs.second / n
        if task == "regression" or criterion == "log-loss":
            total = pairs.first - pairs.second
            squares = pairs.differences - allowance * (2.0 * total - pairs.rows * allowance)
            test = paired_t(pairs.rows, total - pairs.rows * allowance, squares)
        else:
            test = mcnemar(pairs.only_first, pairs.only_second)
    return PairedTest(pairs.rows, champion, challenger, champion - challenger - allowance, test.better, test.worse)


def constant_error(schema: Schema, pairs: PairedSums, criterion: Criterion) -> float:
    """Return the error of a constant by a criterion: of the shares of the classes so far, or the target's mean."""
    if criterion == "squared-error":
        return float(pairs.agreement[1, 1] / max(1, pairs.rows))
    if criterion == "auc":
        return 0.5
    rows = pairs.agreement.sum(axis=1)
    shares = rows / max(1.0, float(rows.sum()))
    if criterion == "average-precision":
        return 1.0 - float(shares[1])
    counts = np.array(schema.class_counts, dtype=np.float64) + 1.0  # no share is 0, as in ConstantPredictor
    if criterion == "log-loss":
        return -float(shares @ np.log(counts / counts.sum()))
    if criterion == "balanced-accuracy":
        present = max(1, int(np.count_nonzero(rows)))
        return 1.0 - float(rows[counts.argmax()] > 0) / present
    return 1.0 - float(shares[counts.argmax()])


def apply_rule(
    task: Task,
    pairs: Mapping[str, PairedSums],
    rule: PublishRule,
    other: str = "the champion",
    missing: tuple[str, ...] = (),
    looks: int = 0,
    criterion: Criterion | None = None,
    schema: Schema | None = None,
    allowance: float = 0.0,
    past_counts: bool = True,
) -> Decision:
    """Apply a rule to the sums of champion and challenger on reserved rows.

    pairs : sums of champion and challenger over reserved rows, by slice: ALL for all, NEWEST and BEFORE for the shards
        that the challenger alone has learned and those before; without these two all rows are the newest
    other : what the challenger is compared with, for people; missing : labels that no reserved row has
    looks : number of rejected challengers of this champion so far
    criterion : of the errors; None: mistakes, or squared errors
    schema : of the constant prediction; a challenger that is worse is never published; None: no such comparison
    allowance : log loss by which a calibration on the compared rows is better on average than one on others; only what
        exceeds it counts
    past_counts : whether the challenger may not be worse on BEFORE; not where these rows are older than a drift
    """
    criterion = criterion or ("squared-error" if task == "regression" else "accuracy")
    test = TESTS[criterion]
    whole = pairs.get(ALL)
    if whole is None or whole.rows == 0:
        return Decision("keep", "There are no reserved rows to compare on, so nothing was published.", test, None, {})
    recent = pairs.get(NEWEST, whole)
    overall, newest = (paired_test(task, some, criterion, allowance) for some in (whole, recent))
    before = paired_test(task, pairs[BEFORE], criterion, allowance) if BEFORE in pairs else None
    level = rule.level / ((looks + 1) * (looks + 2)) if looks else rule.level
    named = {
        name: paired_test(task, pair, criterion, allowance)
        for name, pair in sorted(pairs.items())
        if name not in (ALL, NEWEST, BEFORE) and pair.rows >= FEWEST_ROWS
    }
    bound = {name: pair for name, pair in named.items() if rule.shards or not name.startswith(SHARD)}
    # beyond the margin, and beyond chance on as many slices (Bonferroni)
    least = rule.slice_margin * (overall.champion if criterion in RELATIVE else 1.0)
    share = level / max(1, len(bound))
    worse = tuple(name for name, pair in bound.items() if -pair.gain > least and pair.p_worse <= share)
    lacking = f" No reserved row has the label {' or '.join(missing)}." if missing else ""
    figures = _figures(criterion, overall, newest, before if NEWEST in pairs else None, other) + lacking
    compared, judged = (recent, newest) if rule.needed == "better" else (whole, overall)
    constant = None if schema is None else constant_error(schema, compared, criterion)
    useless = constant is not None and judged.challenger + allowance > constant * (1.0 + 1e-9)
    if useless and constant is not None:
        rates = _rates(criterion, replace(judged, champion=constant), constant_name(task))
        publish, why = False, f"the challenger is worse than {constant_name(task)} on {judged.rows:,} rows ({rates})"
    elif worse:
        described = "; ".join(f"{name}: {_rates(criterion, named[name])}" for name in worse[:3])
        publish, why = False, f"the challenger is worse on {len(worse)} of {len(bound)} slices ({described})"
    else:
        limit = f"significant up to {level:.2g}"
        limit += f" after {counted(looks, 'rejected challenger')}" if looks else ""
        publish, why = _by_rule(criterion, overall, newest, before, rule, level, limit, other, past_counts)
    reason = f"{'Published' if publish else 'Kept'}: {why}. {figures}"
    return Decision(
        "publish" if publish else "keep", reason, test, overall, named, worse, newest, before, useless, criterion
    )


def constant_name(task: Task) -> str:
    """Return what a constant prediction is called in sentences."""
    return "the mean" if task == "regression" else "the majority class"


def _by_rule(
    criterion: Criterion,
    overall: PairedTest,
    newest: PairedTest,
    before: PairedTest | None,
    rule: PublishRule,
    level: float,
    limit: str,
    other: str,
    past_counts: bool,
) -> tuple[bool, str]:
    by = "" if criterion in ("accuracy", "squared-error") else f" by {CRITERION_NAMES[criterion]}"
    by += f" by the margin of {rule.margin:g}" if rule.margin else ""
    judged = newest if rule.needed == "better" else overall
    margin = rule.margin * (judged.champion if criterion in RELATIVE else 1.0)
    if rule.needed == "not worse":
        if -judged.gain > margin and judged.p_worse <= level:
            return False, f"the challenger is worse than {other}{by} ({p_text(judged.p_worse)})"
        return True, f"the challenger is not worse than {other}{by}"
    where = " on the newest rows" if newest.rows < overall.rows and rule.needed == "better" else ""
    if judged.gain <= 0.0 or judged.gain < margin:
        return False, f"the challenger is not better than {other}{by}{where}"
    if judged.p_better <= level:
        return True, f"the challenger is better than {other}{by}{where} ({p_text(judged.p_better)})"
    figures = f"({p_text(judged.p_better)}, {limit})"
    chance = f"the challenger is not significantly better than {other}{by}{where} {figures}"
    if rule.needed == "clearly better":
        return False, chance
    better = f"the challenger is better than {other}{by}{where}, by a difference within chance {figures}"
    if not past_counts:
        return True, f"{better}, and the earlier rows are older than the drift"
    if before is None:
        return False, f"{chance}, which is required because no earlier reserved rows are known"
    if before.gain < 0.0 and before.p_worse <= level:
        return False, f"{chance}, and it is worse on the earlier rows (p = {before.p_worse:.2g})"
    return True, f"{better}, and not significantly worse on the earlier rows"


def _figures(
    criterion: Criterion, overall: PairedTest, newest: PairedTest, before: PairedTest | None, other: str
) -> str:
    if before is None:
        return f"On {overall.rows:,} reserved rows: {_rates(criterion, overall, other)}."
    return (
        f"On the {newest.rows:,} newest reserved rows: {_rates(criterion, newest, other)}; on the {before.rows:,} "
        f"earlier ones: {_rates(criterion, before, other)}."
    )


def _rates(criterion: Criterion, test: PairedTest, other: str = "the champion") -> str:
    if criterion == "squared-error":
        mine, theirs = (number(max(error, 0.0) ** 0.5) for error in (test.challenger, test.champion))
        return f"root mean squared error {mine}, {other} {theirs}"
    if criterion == "accuracy":
        return f"{test.challenger:.2%} wrong, {other} {test.champion:.2%}"
    mine, theirs = (criterion_value(criterion, error) for error in (test.challenger, test.champion))
    return f"{CRITERION_NAMES[criterion]} {mine}, {other} {theirs}"


# Comparing on the reserved rows of the latest shards.

COUNTED = ("confusion", "reliability", "residual_histogram")


@dataclass(frozen=True, eq=False)
class ChallengerResult:
    """Result of the comparison of a challenger.

    shards : names of those whose reserved rows were used, after drift of those since then; metrics : by predictor
    bytes_read : of part files; counted : counts of the challenger's mistakes, their rows (on), and the labels
    predictor : the challenger's, with probabilities if it has any
    """

    decision: Decision
    shards: tuple[str, ...]
    metrics: Mapping[str, Mapping[str, Any]]
    bytes_read: int
    counted: Mapping[str, Any] = field(default_factory=dict)
    predictor: Predictor | None = None

    @property
    def newest_error(self) -> float:
        """Return the error of the challenger on the newest reserved rows; infinity without such rows."""
        return math.inf if self.decision.newest is None else self.decision.newest.challenger


def decide_publication(
    settings: RetrainSettings,
    store: ShardStore,
    history: ModelHistory,
    accepted: Sequence[ShardRecord],
    challenger: Challenger,
    execution: Execution,
    looks: int,
    earlier: Collection[str] = (),
    before_drift: Collection[str] = (),
) -> ChallengerResult:
    """Decide whether the challenger is published, by comparing it with the champion on the same reserved rows.

    Without a champion, the challenger is compared with a constant, and published unless it is worse.

    accepted : shards that may be used; looks : number of rejected challengers of this champion so far
    earlier : SHA-256 of new shards that do not count as the newest ones, because rows have changed since
        or those of the champion are later
    before_drift : SHA-256 of the shards before the latest drift
    """
    schema, champion = challenger.data.schema, history.champion
    before = history.trained_on.union(earlier)
    trained_on = {*history.trained_on, *(record.sha256 for record in challenger.trained_on)}
    trained = some = [record for record in accepted if record.sha256 in trained_on]
    since = [record for record in some if record.sha256 not in before_drift]
    after_drift = len(since) < len(some) and settings.publish_if == "better" and champion is not None
    after_drift &= any(record.test_rows for record in since)
    if after_drift:  # all rows since then count alike, those before say nothing of rows to come
        some, before = since, frozenset()
    chosen = comparison_shards(some, settings.holdout_shards, schema, before)
    criterion = criterion_of(settings.train.judged_by(schema.task), schema.task, schema.class_counts, schema.target)
    if not chosen:
        reason = f"{f'Published: {_FIRST};' if champion is None else 'Kept:'} there are no reserved rows to compare on."
        nothing = Decision("publish" if champion is None else "keep", reason, TESTS[criterion], None, {})
        return ChallengerResult(nothing, (), {}, 0, predictor=challenger.predictor)
    data = store.union(chosen)
    own = replace(data, schema=prepared_as(data.schema, schema))
    note, parts = "", (challenger.state, challenger.predictor, own, execution.n_threads)
    try:
        predictor, record = calibrated(settings.train, *parts)
    except ConfigError as error:  # a threshold without probabilities
        if champion is None or champion.model.configuration.get("threshold") != settings.train.threshold:
            raise
        predictor, record = calibrated(settings.train.replaced(threshold=None), *parts)
        note = f" The champion's threshold is not used: {error}"
    first: Predictor = champion.model.predictor if champion else ConstantPredictor(schema)
    without = [name for name, one in ((FIRST, first), (SECOND, predictor)) if not isinstance(one, HasLogits)]
    allowance = 0.0
    if criterion == "log-loss" and without:
        criterion = "auc" if schema.task == "binary" else "accuracy"
        note += f" Compared by {CRITERION_NAMES[criterion]}, because the {without[0]} has no probabilities."
    elif criterion == "log-loss" and str(record.get("on", "")).endswith(TEST_ROWS):
        # each free number of a fit gains 1 / 2n on its own rows and loses as much on others (Akaike, 1974)
        allowance = max(2, schema.n_outputs) / min(data.rows("test"), MOST_ROWS)
    check_slices(schema, settings.slices)
    work = PairWork(
        data, first, predictor, predictor.precision, settings.slices, tallied=True, criterion=criterion,
        second_schema=own.schema,
    )  # fmt: skip
    pairs, tallies = score_reserved_rows(work, chosen, before, execution)
    other = "the champion" if champion else constant_name(schema.task)
    rule = PublishRule(
        settings.publish_if, settings.margin, settings.level, settings.slice_margin, settings.guard_shards
    )
    if history.excluded and rule.needed == "better":  # a person wants a model without these shards
        rule = replace(rule, needed="not worse")
    missing = _missing(schema, pairs[ALL])
    rule = rule if champion else replace(rule, needed="clearly better")  # of a first version only for the sentence
    compared_by = (rule, other, missing, looks, criterion, schema, allowance, not after_drift)
    decision = apply_rule(schema.task, pairs, *compared_by)
    decision = decision if champion else first_version(decision)
    n_earlier = sum(record.sha256 in before for record in chosen)
    if decision.before is not None and n_earlier < sum(one.test_rows > 0 and one.sha256 in before for one in some):
        note += f" The earlier ones are of the latest {counted(n_earlier, 'file')} trained on (--holdout-shards)."
    if after_drift and decision.publish:
        past = comparison_shards([one for one in trained if one not in some], settings.holdout_shards, schema)
        decision = replace(decision, before=_before_drift(work, store, past, execution))
        note += _of_drift(settings.name, chosen, decision)
    compared = tallies_of(tallies, {*tallies})
    metrics = {name: scalar_metrics(tally.report()) for name, tally in compared.items()}
    if criterion != "accuracy" and settings.train.threshold is None:  # one that is given makes them on purpose
        note += mistakes_sentence(metrics, "before" if champion else other)
    on = "reserved rows since the drift" if after_drift else "reserved rows"
    if not after_drift and any(record.sha256 in before_drift for record in chosen):
        on = "reserved rows from before and after the drift"
    report = compared[SECOND].report()
    measured = {name: value for name, value in report.items() if name in COUNTED} | {"on": on}
    return ChallengerResult(
        replace(decision, reason=decision.reason + note, after_drift=after_drift),
        tuple(record.name for record in chosen),
        metrics,
        sum(shard.size_bytes for shard in data.split("test")),
        measured | {"labels": list(schema.labels), "target": schema.target},
        predictor,
    )


def _before_drift(
    work: PairWork, store: ShardStore, past: list[ShardRecord], execution: Execution
) -> PairedTest | None:
    """Compare both predictors on the reserved rows of shards before a drift; None without such rows."""
    if not past:
        return None
    pairs, _ = score_reserved_rows(replace(work, data=store.union(past), slices=()), past, (), execution)
    return paired_test(work.data.schema.task, pairs[ALL], work.criterion)


def _of_drift(name: str, since: Sequence[ShardRecord], decision: Decision) -> str:
    """Return what a publication after drift rests on, what it costs on earlier rows, and how to undo it."""
    files, earlier = counted(len(since), "file"), ""
    if decision.before is not None and decision.criterion is not None:
        earlier = f"; on {decision.before.rows:,} from before the drift: {_rates(decision.criterion, decision.before)}"
    undo = f"If the change does not last, okl models rollback {name} undoes this."
    return f" These rows are of {files} since the drift{earlier}. {undo}"


def mistakes_sentence(metrics: Mapping[str, Mapping[str, Any]], other: str = "before") -> str:
    """Return the warning that a challenger compared by another criterion makes more mistakes; or "".

    metrics : by FIRST, the champion or the majority class, and SECOND; other : name of the first one's figure

    >>> mistakes_sentence({"champion": {"mistake_rate": 0.02}, "challenger": {"mistake_rate": 0.05}})
    ' The classes that it predicts are wrong more often (5.00%, before 2.00%): use its probabilities, or --threshold.'
    >>> mistakes_sentence({"champion": {"mistake_rate": 0.02}, "challenger": {"mistake_rate": 0.05}}, "the mean")[-64:]
    ' (5.00%, the mean 2.00%): use its probabilities, or --threshold.'
    >>> mistakes_sentence({"champion": {"mistake_rate": 0.02}, "challenger": {"mistake_rate": 0.02001}})
    ''
    """
    before, now = (metrics.get(name, {}).get("mistake_rate") for name in (FIRST, SECOND))
    if before is None or now is None or now <= before or f"{now:.2%}" == f"{before:.2%}":
        return ""
    figures = f"({now:.2%}, {other} {before:.2%})"
    return f" The classes that it predicts are wrong more often {figures}: use its probabilities, or --threshold."


_FIRST = "the first champion of this model"


def first_version(decision: Decision) -> Decision:
    """Return the decision about a first version, published unless it is worse than a constant prediction."""
    if decision.worse_than_constant:
        return decision
    found = decision.reason.partition(": ")[2]
    return replace(decision, kind="publish", reason=f"Published: {_FIRST}; {found}")


def score_reserved_rows(
    work: PairWork, records: Sequence[ShardRecord], excluded: Collection[str], execution: Execution
) -> tuple[SliceSums, dict[str, list[Tallies]]]:
    """Return sums by slice over the rows that shards reserve, each shard a slice of its own, and tallies by shard.

    records : shards of the data, which reserve rows; excluded : SHA-256 of those that the champion has learned
    """
    reserved = work.data.split("test")
    measured = list(execution.map(work, reserved))  # the rows are read and scored once
    of_shard: dict[str, SliceSums] = {}
    tallies: dict[str, list[Tallies]] = {}
    for shard, (sums, tallied) in zip(reserved, measured, strict=True):
        key = shard.path.partition("/")[0]
        of_shard[key] = merged(of_shard.get(key, {}), sums)
        tallies.setdefault(key, []).append(tallied)
    pairs: SliceSums = {}
    for record in records:
        own = of_shard[record.key]
        age = {BEFORE if record.sha256 in excluded else NEWEST: own[ALL]} if excluded else {}
        pairs = merged(pairs, own | age | {f"{SHARD}{record.name}": own[ALL]})
    return pairs, tallies


def tallies_of(tallies: Mapping[str, list[Tallies]], keys: Collection[str]) -> Tallies:
    """Return the tallies of both predictors over some shards."""
    return merge_named(one for key, parts in tallies.items() if key in keys for one in parts)


def comparison_shards(
    accepted: Sequence[ShardRecord], shards: int, schema: Schema, excluded: Collection[str] = ()
) -> list[ShardRecord]:
    """Return the latest shards that have reserved rows.

    accepted : in the order of learning; excluded : SHA-256 of those that the champion has learned
    shards : so many that are new to it at most, and so many before; more of the latter until every label is there
    """
    reserved = [record for record in accepted if record.test_rows]
    new = [record for record in reserved if record.sha256 not in excluded]
    before = [record for record in reserved if record.sha256 in excluded]
    chosen = new[-shards:]
    for index, record in enumerate(reversed([*new[:-shards], *before])):
        present = [any(record.class_counts[i] for record in chosen) for i in range(len(schema.labels))]
        if index >= min(shards, len(before)) and all(present):
            break
        chosen.append(record)
    return sorted(chosen, key=lambda record: record.order)


def _missing(schema: Schema, pairs: PairedSums) -> tuple[str, ...]:
    if schema.task == "regression":
        return ()
    rows = pairs.agreement.sum(axis=1)
    return tuple(repr(label) for label, count in zip(schema.labels, rows, strict=True) if count == 0)
