"""Commands `okl compare` and `okl reproduce`."""

from __future__ import annotations

from typing import Annotated

from flows.cli import options as cli
from flows.cli.commands import Json, Record, app, print_result
from okl.foundation.locations import absolute_location, local_location
from okl.foundation.settings import IngestSettings, settings_from
from okl.papers.settings import ReproduceSettings
from okl.report.progress import terminal_observer
from okl.runs.compare_settings import CompareSettings

# okl compare

COMPARE = cli.Options(
    CompareSettings,
    {
        cli.VALIDATION: (
            "optimise",
            "folds",
            "holdout",
            "grid",
            "halving",
            "rows",
            "tolerance",
            "iterations",
            "memory",
        ),
        cli.MODEL: ("rescale", "kernel", "bandwidth", "frequencies", "map", "seed", "precision"),
        cli.OUTPUT: ("out", "name"),
        cli.WORKERS: cli.EXECUTION.fields,
    },
)
# the comparison has a --holdout of its own: training rows that models are evaluated on
INGESTED = cli.INGEST.without("holdout")


@app.command(cls=cli.Command, short_help="Compare models on the same folds and save the best one, with a report.")
@cli.accepts(given=COMPARE, ingest_options=INGESTED)
def compare(
    dataset: Annotated[str, cli.argument("DATASET", cli.help_for(CompareSettings, "data", False))],
    given: cli.OptionValues,
    ingest_options: cli.OptionValues,
    models: Annotated[
        str, cli.option("all|online|NAME,...", cli.help_for(CompareSettings, "models", False), panel=cli.VALIDATION)
    ] = "all",
    record: Record = False,
    json: Json = False,
) -> None:
    """Compare models on the same folds, each over its range of parameters, and save the best one with a report.

    \b
    okl compare rows.csv --target y                              the automatic choice, ridge and certified models
    okl compare rows.csv --target y --models c-svm,logistic,fogd three models by name

    To compare finished runs of okl train, use okl runs.

    The table shows the spread over folds, the certified gap, and a paired test against the best
    model.
    """
    values: cli.OptionValues = {"data": cli.data_location(dataset), "models": models} | given
    if "out" in given:
        values["out"] = absolute_location(given["out"])
    if ingest_options:
        values["ingest"] = settings_from(IngestSettings, ingest_options, "okl compare")
    settings = settings_from(CompareSettings, values, "okl compare")
    from flows.foreground import perform_run
    from okl.report.comparison import text_summary
    from okl.runs.compare import ComparisonRun, check

    check(settings)
    result = perform_run(ComparisonRun(settings), "flows.runs:okl_compare", terminal_observer(), record)
    print_result(result, json, "" if json else text_summary(result))


# okl reproduce

REPRODUCE = cli.Options(
    ReproduceSettings, {cli.OTHER: ("repeats", "orders", "choice", "precision", "workers", "threads", "out")}
)


@app.command(short_help="Reproduce a table of a paper and compare it with the printed numbers.")
@cli.accepts(given=REPRODUCE)
def reproduce(
    table: Annotated[str, cli.argument("TABLE", cli.help_for(ReproduceSettings, "table", False))],
    given: cli.OptionValues,
    data: Annotated[str, cli.option("DIR", cli.help_for(ReproduceSettings, "data", False))] = "",
    datasets: Annotated[str, cli.option("NAME,...", cli.help_for(ReproduceSettings, "datasets", False))] = "",
    algorithms: Annotated[str, cli.option("NAME,...", cli.help_for(ReproduceSettings, "algorithms", False))] = "",
    record: Record = False,
    json: Json = False,
) -> None:
    """Reproduce a table of a paper and compare it with the printed numbers.

    With the --out of an interrupted run, finished parts are not computed again.
    """
    folder = local_location("--data", data) if data else ""
    values = {"table": table, "data": folder, "datasets": datasets, "algorithms": algorithms} | given
    if "out" in given:
        values["out"] = local_location("--out", given["out"])
    settings = settings_from(ReproduceSettings, values, "okl reproduce")
    from flows.foreground import perform_run
    from okl.papers.report import text_summary
    from okl.papers.run import ReproductionRun, check

    check(settings)
    result = perform_run(ReproductionRun(settings), "flows.runs:okl_reproduce", terminal_observer(), record)
    print_result(result, json, "" if json else text_summary(result))
