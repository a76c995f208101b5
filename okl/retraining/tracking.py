"""What a retraining has come to, told to MLflow: parameters, metrics, lineage, decision, and the model it published."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from okl.errors import ConfigError
from okl.registry.describe import flattened
from okl.registry.payload import MODEL
from okl.registry.version import Version

LONGEST = 500  # letters of a parameter's value that every tracking store takes


def check_mlflow() -> None:
    """Raise ConfigError unless MLflow is installed."""
    try:
        import_module("mlflow")
    except ImportError:
        raise ConfigError("mlflow was given, but it is not installed. Type: pip install 'okl[mlflow]'.") from None


def log_to_mlflow(where: str, result: Mapping[str, Any], version: Version | None) -> str:
    """Log a run into the experiment of the model's name; what MLflow cannot take does not undo what was decided.

    Parameters
    ----------
    where : tracking URI, such as sqlite:////srv/mlflow.db or http://127.0.0.1:5000
    result : of the retraining; version : that was published, None if none was

    Returns
    -------
    "run ID", or a sentence that says why nothing was logged
    """
    try:
        return f"run {_logged(where, result, version)}"
    except Exception as error:  # whatever a server or its client throws: the version stands
        return f"MLflow at {where} took nothing: {error}"


def _logged(where: str, result: Mapping[str, Any], version: Version | None) -> str:
    client: Any = import_module("mlflow").MlflowClient(tracking_uri=where)
    found = client.get_experiment_by_name(result["model"])
    experiment = found.experiment_id if found is not None else client.create_experiment(result["model"])
    run = str(client.create_run(experiment, run_name=f"{result['model']} {result['outcome']}").info.run_id)
    for name, value in flattened(result["settings"]).items():
        client.log_param(run, name, str(value)[:LONGEST])
    figures = {f"{who}.{name}": value for who, told in result["metrics"].items() for name, value in told.items()}
    figures |= {name: result[name] for name in ("seconds", "total_seconds", "bytes_read")}
    for name, value in figures.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            client.log_metric(run, name, float(value))
    for name in ("outcome", "reason", "version", "parent"):
        client.set_tag(run, f"okl.{name}", str(result[name]))
    client.log_dict(run, dict(result), "result.json")
    if version is not None:
        client.log_dict(run, version.lineage.as_json(), "lineage.json")
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / MODEL
            folder.mkdir()
            for path in version.published.files:
                if path.startswith(f"{MODEL}/"):
                    (folder / path.removeprefix(f"{MODEL}/")).write_bytes((version.files / path).read_bytes())
            client.log_artifacts(run, str(folder), MODEL)
    client.set_terminated(run)
    return run
