"""The commands `okl models`, `okl export` and `okl explain`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.commands import MODEL_HELP, Json, Registered, app, show
from flows.cli.options import TakesFiles
from flows.progress import terminal_observer
from okl.foundation.errors import ConfigError

if TYPE_CHECKING:
    from okl.models.registry import Entry

# The commands `okl models ...`: what a registry holds, and what moves its aliases.

models = typer.Typer(
    help="Registered models: versions that never change, and aliases (champion, previous, candidate) that move.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(
    models, name="models", short_help="Registered models: list, show, diff, publish, promote, rollback, prune."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Of the model.")]
Which = Annotated[str | None, typer.Argument(metavar="WHICH", help="Number or alias.", show_default=False)]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="Kept in the log, for people; none: no reason.")]
Expected = Annotated[
    int | None,
    typer.Option("--expect", metavar="VERSION", help="Change nothing unless this is the champion; none: whichever is."),
]


@models.command("list", short_help="Models with their aliases.")
def list_models(registry: Registered = None, json: Json = False) -> None:
    """Models with their aliases."""
    from okl.lifecycle.describe import registry_text
    from okl.models.registry import Registry, describe_registry

    found = describe_registry(Registry(registry))
    show(found, json, registry_text(found))


@models.command("show", short_help="A model's versions and log, or one version's lineage.")
def show_model(
    model: Annotated[str, typer.Argument(metavar="NAME[@WHICH]", help="A model, or a version: NAME@7, NAME@champion.")],
    which: Which = None,
    whole: Annotated[
        bool, typer.Option("--all", help="Of a version: every setting, what it was made with, all shards.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read all files of a version, and hold them against the log.")
    ] = False,
    registry: Registered = None,
    json: Json = False,
) -> None:
    """A model's versions and log; or of one version how good it is, what it learnt, and by which settings."""
    from okl.lifecycle.describe import model_text, version_text
    from okl.models.registry import Registry, describe_model, describe_one

    name, which = _one(model, which, "show")
    registered = Registry(registry).model(name)
    if not which:
        if verify:
            for one in registered.versions():
                if not one.pruned:
                    one.verify()
        from okl.lifecycle.report import attempts_text, latest_attempts, quarantined, quarantined_text

        attempts, kept_out = latest_attempts(registered), quarantined(registered)
        found = describe_model(registered)
        parts = [model_text(found)]
        parts += [attempts_text(attempts)] if attempts else []
        parts += [quarantined_text(kept_out)] if kept_out else []
        show(found | {"attempts": attempts, "quarantined": kept_out}, json, "\n\n".join(parts))
        return
    version = registered.version(which)
    if verify:
        version.verify()
    found = describe_one(registered, version)
    show(found, json, version_text(found, whole))


@models.command(short_help="What two versions of a model differ in.")
def diff(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the model; or NAME@WHICH NAME@WHICH.")],
    first: Which = None,
    second: Which = None,
    registry: Registered = None,
    json: Json = False,
) -> None:
    """What two versions of a model differ in: settings, figures, environment, shards learnt.

    By themselves the champion and the one before it.
    """
    from okl.lifecycle.describe import difference_text
    from okl.models.registry import Registry, describe_difference

    name, first, second = _two(name, first, second)
    model = Registry(registry).model(name)
    found = describe_difference(model, model.version(first), model.version(second))
    show(found, json, difference_text(found))


@models.command(short_help="Add a trained model as a version.")
def publish(
    name: Name,
    trained: Annotated[str, typer.Argument(metavar="RUN", help="Folder, URL or name of a run, or a model alone.")],
    promote: Annotated[bool, typer.Option("--promote", help="Make it the champion in the same step.")] = False,
    why: Why = "",
    registry: Registered = None,
    json: Json = False,
) -> None:
    """Add a trained model as a version; the same one again adds nothing."""
    from okl.foundation.locations import place_of
    from okl.lifecycle.describe import publish_trained
    from okl.models.reference import run_named
    from okl.models.registry import Registry

    model, place = Registry(registry).model(name), place_of(trained)
    run = None if place.exists() else run_named(trained)
    version, new = publish_trained(model, run or place, promote=promote, why=why)
    found = {"model": name, "version": version.number, "new": new, "folder": str(version.folder)}
    text, champion = (
        f"{version} {'published' if new else 'was there already'}: {version.folder}",
        model.state().champion,
    )
    text += f"\nchampion of {name} is {champion or 'none yet'}"
    if champion != version.number:
        text += f"; to make it this one: okl models promote {name} {version.number}"
    show(found, json, text)


@models.command(short_help="Make a version the champion.")
def promote(
    name: Name,
    which: Annotated[
        str | None, typer.Argument(metavar="WHICH", help="Number or alias, such as 7 or candidate.", show_default=False)
    ] = None,
    expect: Expected = None,
    why: Why = "",
    registry: Registered = None,
    json: Json = False,
) -> None:
    """Make a version the champion; the champion before becomes `previous`, in the same step."""
    from okl.models.registry import CHAMPION, Registry

    name, version = _one(name, which, "promote")
    if not version:
        raise ConfigError(f"okl models promote takes one version: okl models promote {name} 7, or {name}@7.")
    model = Registry(registry).model(name)
    before = model.state().champion
    entry = model.promote(version, expected=None if expect is None else {CHAMPION: expect}, why=why)
    _show_moved(name, before, entry, registry, json)


@models.command(short_help="Make the champion before the champion again.")
def rollback(
    name: Name, expect: Expected = None, why: Why = "", registry: Registered = None, json: Json = False
) -> None:
    """Make the champion before the champion again; twice goes back twice."""
    from okl.models.registry import CHAMPION, Registry

    model = Registry(registry).model(name)
    before = model.state().champion
    entry = model.rollback(expected=None if expect is None else {CHAMPION: expect}, why=why)
    _show_moved(name, before, entry, registry, json)


@models.command(short_help="Remove the files of old versions.")
def prune(
    name: Name,
    keep: Annotated[int, typer.Option("--keep", metavar="N", help="Newest versions that keep their files.")] = 10,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Remove nothing; say what would be.")] = False,
    why: Why = "",
    registry: Registered = None,
    json: Json = False,
) -> None:
    """Remove the files of old versions that no alias names; their lineage stays."""
    from okl.lifecycle.describe import pruned_text
    from okl.models.registry import Registry

    pruned = Registry(registry).model(name).prune(keep, dry_run=dry_run, why=why)
    show({"model": name, "dry_run": dry_run} | asdict(pruned), json, pruned_text(pruned, dry_run))


def _one(name: str, which: str | None, command: str) -> tuple[str, str]:
    """A model and a version of it, "" for none, from NAME, NAME WHICH or NAME@WHICH."""
    model, at, version = name.partition("@")
    if (at and which is not None) or (at and not version):
        raise ConfigError(f"okl models {command} takes one version: okl models {command} {model} 7, or {model}@7.")
    return model, which or version


def _two(name: str, first: str | None, second: str | None) -> tuple[str, str, str]:
    """A model and two of its versions, from NAME WHICH WHICH or NAME@WHICH NAME@WHICH."""
    from okl.models.registry import CHAMPION, PREVIOUS

    model, at, which = name.partition("@")
    if not at:
        return name, first or PREVIOUS, second or CHAMPION
    other, _, version = (first or "").rpartition("@")
    if second is not None or other not in ("", model):
        raise ConfigError(f"okl models diff takes two versions of one model: okl models diff {model}@1 {model}@2.")
    return model, which, version or CHAMPION


def _show_moved(name: str, before: int | None, entry: Entry, registry: str | None, json: bool) -> None:
    """before : the champion's number just before; somebody else may have moved it in between, so the log has the last
    word on the new one."""
    from flows.stack.finding import rescoring
    from okl.lifecycle.describe import moved_text
    from okl.models.registry import describe_entry

    found = {"model": name, "champion_before": before} | describe_entry(entry)
    scored = rescoring(name, registry) if entry.state.champion != before else ""
    show(found | {"scored": scored or None}, json, "\n".join(filter(None, (moved_text(found), scored))))


# The command `okl export`.

ENDINGS = ("onnx", "skops")


@app.command(short_help="Write a model for ONNX runtimes or scikit-learn.")
def export(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    out: Annotated[str, typer.Argument(metavar="FILE", help="File or URL to make, such as model.onnx.")],
    to: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="onnx|skops",
            help="skops: a pipeline of scikit-learn's own estimators; none: by the ending of FILE.",
        ),
    ] = None,
    registry: Registered = None,
    json: Json = False,
) -> None:
    """Write a model as one file that takes raw rows, scaling included, and needs no okl.

    The file is held against okl's own scores on made-up rows before it is there. `pip install 'okl[onnx]'` or `[skops]`
    brings what a format needs. ONNX has no dates: each of their parts (years, sine and cosine of the day in the year,
    ...) is an input, computed as the file's property `dates` and its description say, with NaN for a missing one.
    """
    from okl.models.export import export as write

    ending = out.rpartition(".")[2]
    if to is None and ending not in ENDINGS:
        raise ConfigError(f"{out} does not end in .onnx or .skops: name it so, or say which by --format.")
    made = write(model, out, to or ending, registry)  # type: ignore[arg-type]  # an unknown format is refused in there
    text = (
        f"{made['out']}: {made['bytes']:,} bytes; scores of {made['rows']:,} made-up rows differ from okl's by at most "
        f"{made['largest_difference']:.1e} of the largest; {made['rows_per_second']:,.0f} rows a second on one thread"
    )
    show(made, json, text)


# The command `okl explain`.


@app.command(cls=TakesFiles, short_help="Tell what a model is, what is proven of it, and which columns it leans on.")
def explain(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE", help="Labelled rows or a data set; none: that of its run.", show_default=False
        ),
    ] = None,
    rows: Annotated[int, typer.Option("--rows", metavar="N", min=2, help="Sampled rows.")] = 5000,
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", min=1, help="Permutations of each column.")] = 5,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Of sample and permutations.")] = 0,
    registry: Registered = None,
    json: Json = False,
) -> None:
    """Tell what a model is, what is proven of it, where it comes from, and which columns it leans on.

    A column matters as much as the error rises when its values are dealt out to other rows.
    """
    from okl.runs.explain import ExplainSettings, explanation_text
    from okl.runs.explain import explain as told_of

    observer = terminal_observer()
    try:
        told = told_of(
            ExplainSettings(model=model, registry=registry, source=source, rows=rows, repeats=repeats, seed=seed),
            observer,
        )
    finally:
        observer.finish()
    show(told, json, explanation_text(told))
