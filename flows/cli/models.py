"""Commands `okl models`, `okl export` and `okl explain`."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.commands import MODEL_HELP, Json, Registered, app, print_result
from flows.cli.options import Command, argument, option
from okl.foundation.errors import ConfigError
from okl.foundation.settings import settings_from
from okl.report.progress import observed

if TYPE_CHECKING:
    from okl.models.registry_log import Entry

# okl models

models = typer.Typer(
    help="Manage registered models: immutable versions, and aliases (champion, previous, pinned) that name them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(
    models,
    name="models",
    short_help="Manage registered models: list, show, diff, publish, promote, rollback, pin, prune.",
)

VERIFIED = "Verified: all files have the sha256 in the log."
Name = Annotated[str, argument("NAME", "Name of the model.")]
Which = Annotated[str | None, argument("VERSION", "Number or alias of a version.")]
Why = Annotated[str, option("TEXT", "Reason, stored in the log; none: no reason.", "--why")]
Expected = Annotated[
    int | None, option("VERSION", "Fail unless this version is the champion; none: no check.", "--expect")
]


@models.command("list", short_help="List models and their aliases.")
def list_models(registry: Registered = None, json: Json = False) -> None:
    """List models and their aliases."""
    from okl.models.registry import Registry
    from okl.models.registry_descriptions import describe_registry
    from okl.report.model_listing import registry_text

    stored = Registry(registry)
    described: dict[str, Any] = {"registry": stored.location, "models": []}
    # only okl's own registry is made by the first model; another one that is not there is an error
    if registry or os.environ.get("OKL_REGISTRY") or stored.folder.exists():
        described = describe_registry(stored)
    print_result(described, json, registry_text(described))


@models.command("show", short_help="Show the versions and log of a model, or the lineage of one version.")
def show_model(
    model: Annotated[str, argument("NAME[@VERSION]", "A model, or a version: NAME@7, NAME@champion.")],
    which: Which = None,
    whole: Annotated[
        bool, typer.Option("--all", help="Show all settings, the environment and all shards of a version.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check the files of the versions against the hashes in the log.")
    ] = False,
    registry: Registered = None,
    json: Json = False,
) -> None:
    """Show the versions and log of a model; or the metrics, training shards and settings of one version."""
    from okl.models.registry import Registry
    from okl.models.registry_descriptions import describe_model, describe_one
    from okl.report.model_listing import attempts_text, model_text, quarantined_text, version_text

    name, which = _parse_version(model, which, "show")
    registered = Registry(registry).model(name)
    if not which:
        if verify:
            for version in registered.versions():
                if not version.pruned:
                    version.verify()
        from okl.lifecycle.report import latest_attempts, quarantined

        attempts, quarantine = latest_attempts(registered), quarantined(registered)
        if (attempts or quarantine) and not registered.state().latest:
            described: dict[str, Any] = {"model": name, "folder": str(registered.folder), "versions": []}
            parts = [f"{name}: no version yet  ({registered.folder})"]
        else:
            described = describe_model(registered)
            parts = [model_text(described)]
        parts += [attempts_text(attempts)] if attempts else []
        parts += [quarantined_text(quarantine)] if quarantine else []
        parts += [VERIFIED] if verify else []
        print_result(described | {"attempts": attempts, "quarantined": quarantine}, json, "\n\n".join(parts))
        return
    version = registered.version(which)
    if verify:
        version.verify()
    described = describe_one(registered, version)
    print_result(described, json, version_text(described, whole) + (f"\n{VERIFIED}" if verify else ""))


@models.command(short_help="Show the differences between two versions of a model.")
def diff(
    name: Annotated[str, argument("NAME", "Name of the model; or NAME@VERSION NAME@VERSION.")],
    first: Which = None,
    second: Which = None,
    registry: Registered = None,
    json: Json = False,
) -> None:
    """Show the differences between two versions of a model: settings, metrics, environment, training shards.

    By default, the previous champion and the champion are compared.
    """
    from okl.models.registry import Registry
    from okl.models.registry_descriptions import describe_difference
    from okl.report.model_listing import difference_text

    name, first, second = _parse_two_versions(name, first, second)
    model = Registry(registry).model(name)
    described = describe_difference(model, model.version(first), model.version(second))
    print_result(described, json, difference_text(described))


@models.command(short_help="Add a trained model as a new version.")
def publish(
    name: Name,
    trained: Annotated[str, argument("RUN", "Name, folder or URL of a run, or folder of a model.")],
    promote: Annotated[bool, typer.Option("--promote", help="Also make it the champion.")] = False,
    threshold: Annotated[
        float | None,
        option(
            "NUMBER",
            "Probability from which on the version predicts the second of two classes, which retraining keeps; none: "
            "that of the model.",
        ),
    ] = None,
    why: Why = "",
    registry: Registered = None,
    json: Json = False,
) -> None:
    """Add a trained model as a new version; publishing the same model again adds nothing."""
    from okl.foundation.locations import place_of
    from okl.lifecycle.versions import publish_trained
    from okl.models.reference import run_named
    from okl.models.registry import Registry

    model, location = Registry(registry).model(name), place_of(trained)
    run = None if location.exists() else run_named(trained)
    version, new = publish_trained(model, run or location, promote=promote, why=why, threshold=threshold)
    published = {"model": name, "version": version.number, "new": new, "folder": str(version.folder)}
    champion = model.state().champion
    text = f"{version} {'published' if new else 'is already published'}: {version.folder}"
    text += f"\nchampion of {name}: {champion or 'none'}"
    if champion != version.number:
        text += f"; to promote version {version.number}: okl models promote {name} {version.number}"
    print_result(published, json, text)


@models.command(short_help="Promote a version to champion.")
def promote(
    name: Name,
    which: Annotated[str | None, argument("VERSION", "Number or alias, such as 7 or previous.")] = None,
    expect: Expected = None,
    why: Why = "",
    registry: Registered = None,
    json: Json = False,
) -> None:
    """Promote a version to champion; the old champion becomes `previous`."""
    from okl.models.registry import Registry
    from okl.models.registry_log import CHAMPION

    name, version = _parse_version(name, which, "promote")
    if not version:
        raise ConfigError(
            f"okl models promote {name} names no version. Write okl models promote {name} 7, or {name}@7."
        )
    model = Registry(registry).model(name)
    before = model.state().champion
    entry = model.promote(version, expected=None if expect is None else {CHAMPION: expect}, why=why)
    _show_moved(name, before, entry, registry, json)


@models.command(short_help="Restore the previous champion.")
def rollback(
    name: Name, expect: Expected = None, why: Why = "", registry: Registered = None, json: Json = False
) -> None:
    """Restore the previous champion; a second rollback restores the champion before that."""
    from okl.models.registry import Registry
    from okl.models.registry_log import CHAMPION

    model = Registry(registry).model(name)
    before = model.state().champion
    entry = model.rollback(expected=None if expect is None else {CHAMPION: expect}, why=why)
    _show_moved(name, before, entry, registry, json)


@models.command(short_help="Pin the champion, so that retraining does not replace it.")
def pin(name: Name, why: Why = "", registry: Registered = None, json: Json = False) -> None:
    """Pin the champion: retraining checks and stores new shards, and trains nothing.

    promote and rollback still change the champion, and the pin moves with it. A dry run trains and compares.
    """
    _pin(name, False, why, registry, json)


@models.command(short_help="Release the pinned champion.")
def unpin(name: Name, why: Why = "", registry: Registered = None, json: Json = False) -> None:
    """Release the pinned champion: the next retraining trains on all shards that are new since it."""
    _pin(name, True, why, registry, json)


@models.command(short_help="Remove the files of old versions.")
def prune(
    name: Name,
    keep: Annotated[int, option("N", "Number of newest versions to keep.", "--keep")] = 10,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Remove nothing; list what would be removed.")] = False,
    why: Why = "",
    registry: Registered = None,
    json: Json = False,
) -> None:
    """Remove the files of old versions that have no alias; their lineage remains."""
    from okl.models.registry import Registry
    from okl.report.model_listing import pruned_text

    pruned = Registry(registry).model(name).prune(keep, dry_run=dry_run, why=why)
    print_result({"model": name, "dry_run": dry_run} | asdict(pruned), json, pruned_text(pruned, dry_run))


def _parse_version(name: str, which: str | None, command: str) -> tuple[str, str]:
    """Return a model and one version ("" for none) from NAME, NAME VERSION or NAME@VERSION."""
    model, at, version = name.partition("@")
    if (at and which is not None) or (at and not version):
        raise ConfigError(
            f"okl models {command} takes exactly one version. Write okl models {command} {model} 7, or {model}@7."
        )
    return model, which or version


def _parse_two_versions(name: str, first: str | None, second: str | None) -> tuple[str, str, str]:
    """Return a model and two of its versions from NAME VERSION VERSION or NAME@VERSION NAME@VERSION."""
    from okl.models.registry_log import CHAMPION, PREVIOUS

    model, at, which = name.partition("@")
    if not at:
        return name, first or PREVIOUS, second or CHAMPION
    other, _, version = (first or "").rpartition("@")
    if second is not None or other not in ("", model):
        raise ConfigError(
            f"okl models diff takes two versions of one model. Write okl models diff {model}@1 {model}@2."
        )
    return model, which, version or CHAMPION


def _pin(name: str, release: bool, why: str, registry: str | None, json: bool) -> None:
    from okl.models.registry import Registry
    from okl.models.registry_descriptions import describe_entry
    from okl.models.registry_log import CHAMPION

    entry = Registry(registry).model(name).pin(release=release, why=why)
    version = f"{name}@{entry.state.aliases[CHAMPION]}"
    text = f"{version} is pinned: retraining trains nothing. To release it: okl models unpin {name}"
    print_result({"model": name} | describe_entry(entry), json, f"{version} is not pinned." if release else text)


def _show_moved(name: str, before: int | None, entry: Entry, registry: str | None, json: bool) -> None:
    """Print the champions before and after a change.

    `before` is the champion just before the call. The new champion is read from the log entry, because another process
    may have changed it in between.
    """
    from flows.stack.status import rescoring
    from okl.models.registry_descriptions import describe_entry
    from okl.report.model_listing import moved_text

    described = {"model": name, "champion_before": before} | describe_entry(entry)
    scored = rescoring(name, registry) if entry.state.champion != before else ""
    print_result(described | {"scored": scored or None}, json, "\n".join(filter(None, (moved_text(described), scored))))


# okl export


@app.command(short_help="Export a model to ONNX or scikit-learn.")
def export(
    model: Annotated[str, argument("MODEL", MODEL_HELP)],
    out: Annotated[str, argument("FILE", "File or URL to write, such as model.onnx.")],
    to: Annotated[
        str | None,
        option(
            "onnx|skops",
            "File format; skops: a pipeline of scikit-learn estimators; none: by the suffix of FILE.",
            "--format",
        ),
    ] = None,
    registry: Registered = None,
    json: Json = False,
) -> None:
    """Export a model to one file that takes raw rows, includes the scaling, and does not need okl.

    Before the file is written, its scores are compared with okl's on synthetic rows. Install the format with
    `pip install 'okl[onnx]'` or `'okl[skops]'`. ONNX has no dates: each part of a date (years, sine and cosine of the
    day in the year, ...) is an input, described in the property `dates` of the file; NaN is a missing date.
    """
    from okl.models.export import export as write

    exported = write(model, out, to, registry)  # type: ignore[arg-type]  # it refuses an unknown format
    text = (
        f"{exported['out']}: {exported['bytes']:,} bytes; {exported['rows_per_second']:,.0f} rows per second on one "
        f"thread\nchecked on {exported['rows']:,} synthetic rows: scores differ from okl's by at most "
        f"{exported['largest_difference']:.1e} (relative)"
    )
    print_result(exported, json, text)


# okl explain


@app.command(cls=Command, short_help="Explain a model: settings, certificate and important columns.")
def explain(
    model: Annotated[str, argument("MODEL", MODEL_HELP)],
    source: Annotated[
        str | None, argument("SOURCE", "Labelled rows or a data set; none: the data set of the run.")
    ] = None,
    rows: Annotated[int, typer.Option("--rows", metavar="N", min=2, help="Number of rows to sample.")] = 5000,
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="N", min=1, help="Number of permutations of each column.")
    ] = 5,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Seed of the sample and the permutations.")
    ] = 0,
    optimise: Annotated[
        str,
        option(
            "NAME",
            "Criterion of the error: log-loss, auc, average-precision, balanced-accuracy, accuracy; auto: that of "
            "the model's training.",
            "--optimise",
        ),
    ] = "auto",
    registry: Registered = None,
    json: Json = False,
) -> None:
    """Explain a model: its settings, certificate, lineage and important columns.

    The importance of a column is the increase of the error when its values are permuted among the rows.
    """
    from okl.report.explanation import explanation_text
    from okl.runs.explain import ExplainSettings
    from okl.runs.explain import explain as explain_model

    values = {"model": model, "registry": registry, "source": source, "rows": rows, "repeats": repeats, "seed": seed}
    with observed() as observer:
        settings = settings_from(ExplainSettings, values | {"optimise": optimise}, "okl explain")
        explanation = explain_model(settings, observer)
    print_result(explanation, json, explanation_text(explanation))
