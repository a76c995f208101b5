"""The command `okl export`."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.commands import MODEL_HELP, Json, Registered, app, show
from okl.errors import ConfigError

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
    from okl.exporting.export import export as write

    ending = out.rpartition(".")[2]
    if to is None and ending not in ENDINGS:
        raise ConfigError(f"{out} does not end in .onnx or .skops: name it so, or say which by --format.")
    made = write(model, out, to or ending, registry)  # type: ignore[arg-type]  # an unknown format is refused in there
    text = (
        f"{made['out']}: {made['bytes']:,} bytes; scores of {made['rows']:,} made-up rows differ from okl's by at most "
        f"{made['largest_difference']:.1e} of the largest; {made['rows_per_second']:,.0f} rows a second on one thread"
    )
    show(made, json, text)
