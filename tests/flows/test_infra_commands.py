"""Commands and variables in compose.yaml and the manifests exist: the program of each command parses it."""

from __future__ import annotations

import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import click
import pytest
import typer
import yaml  # type: ignore[import-untyped]  # no stubs
from distributed.cli import dask_scheduler, dask_worker
from prefect.cli._app import _app as prefect_command
from prefect.settings import Settings
from prefect.settings.legacy import _get_valid_setting_names

import flows.cli.deploy
import flows.cli.stack  # noqa: F401  each adds its commands
from flows.cli.commands import app

INFRA = Path(__file__).parents[2] / "infra"
DASK = {"scheduler": dask_scheduler.main, "worker": dask_worker.main}


def parts() -> list[dict[str, Any]]:
    """Return all containers, each with its command and the names of its variables."""
    services = yaml.safe_load((INFRA / "compose.yaml").read_text())["services"].values()
    containers = [
        {"words": definition["command"], "names": [*definition.get("environment", {})]}
        for definition in services
        if "command" in definition
    ]
    for path in (INFRA / "kubernetes").glob("*.yaml"):
        for definition in yaml.safe_load_all(path.read_text()):
            pod = definition.get("spec", {}).get("template", {}).get("spec", {})
            inside = [part for part in [*pod.get("initContainers", []), *pod.get("containers", [])] if "args" in part]
            containers += [{"words": part["args"], "names": [name["name"] for name in part["env"]]} for part in inside]
    return containers


def parse(words: list[str]) -> None:
    """Parse a command line with its program, without running it; Dask checks whether files exist."""
    program, *rest = words
    if program == "dask":
        DASK[rest[0]].make_context(rest[0], list(rest[1:]))
    elif program == "okl":
        command = typer.main.get_command(app)
        command.commands[rest[0]].make_context(rest[0], list(rest[1:]))  # type: ignore[attr-defined]
    else:
        assert program == "prefect"
        prefect_command.parse_args(list(rest), exit_on_error=False, print_error=False)


def test_every_command_is_valid(tmp_path: Path) -> None:
    containers = parts()
    assert {part["words"][0] for part in containers} == {"okl", "prefect", "dask"}
    assert len(containers) >= 11
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).touch()
    for part in containers:
        parse([str(word).replace("/run/certificates", str(tmp_path)) for word in part["words"]])


def test_the_systemd_unit_starts_okl_as_an_unprivileged_user() -> None:
    unit = ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their capitals
    unit.read(INFRA / "okl.service")
    program, *words = unit["Service"]["ExecStart"].split()
    assert Path(program).name == "okl"
    parse(["okl", *words])
    assert "--foreground" in words
    assert unit["Service"]["User"] == "okl"
    assert unit["Service"]["NoNewPrivileges"] == "yes"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_systemd_accepts_the_unit_and_refuses_a_wrong_key(tmp_path: Path) -> None:
    # systemd checks that the program exists
    text = (INFRA / "okl.service").read_text().replace("/opt/okl/bin/okl", "/bin/true")
    for name, content in {"okl": text, "wrong": text.replace("ProtectHome", "ProtectHouse")}.items():
        (tmp_path / f"{name}.service").write_text(content)
        command = ["systemd-analyze", "verify", str(tmp_path / f"{name}.service")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ("Unknown key 'ProtectHouse'" in done.stderr, bool(done.stderr)) == ((name == "wrong",) * 2), done.stderr


def test_a_wrong_option_is_refused() -> None:
    with pytest.raises(click.UsageError, match="--prt"):
        parse(["dask", "scheduler", "--prt=1"])
    with pytest.raises(Exception, match="--pol"):
        parse(["prefect", "worker", "start", "--pol", "okl"])
    with pytest.raises(Exception, match="--crn"):
        parse(["okl", "deploy", "--crn", "0 3 * * *"])


def test_every_variable_of_prefect_and_dask_is_a_setting() -> None:
    import dask

    names = {name for part in parts() for name in part["names"]}
    prefect = {name for name in names if name.startswith("PREFECT_") and "INTEGRATIONS" not in name}
    assert len(prefect) > 8
    assert prefect <= _get_valid_setting_names(Settings)
    of_dask = [name.removeprefix("DASK_").lower().replace("__", ".") for name in names if name.startswith("DASK_")]
    assert len(of_dask) == 4
    assert not [name for name in of_dask if dask.config.get(name, default="absent") == "absent"]
