"""The pages of the documentation: the command line accepts their commands, names exist, examples run."""

from __future__ import annotations

import importlib
import pkgutil
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import flows.cli
import okl
import okl.extensions
from flows.cli.options import INGEST, SOLVER_OPTIONS, TRAIN
from okl.foundation.plugins import use_extension
from okl.foundation.settings import IngestSettings, settings_from
from okl.solvers.settings import TrainSettings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "infra" / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
EVENTS = {
    "okl.model.NAME",
    "okl.model.promoted",
    "okl.model.current",
    "okl.model.drifted",
    "okl.data.missing",
    "okl.data.quarantined",
}  # of Prefect, not modules
READ = [*PAGES, ROOT / "README.md", ROOT / "infra" / "README.md"]
OF_EXAMPLES = DOCS / "how-to" / "add.md"  # its commands use names that test_added.py adds
WRITES = {
    "train_on_csv": ["test accuracy 0.9", "report.html", "['malignant' 'malignant' 'malignant']"],
    "compare_models": [
        "fogd   test accuracy 0.9",
        "c-svm  test accuracy 0.9",
        "scs    test accuracy 0.9",
        "nothing proved",
    ],
    "retrain_every_night": ["night 0: published", "night 1: published", "a third call: nothing new", "[1 0]"],
}
LEARNS = {
    "constraints_while_learning": ["free: accuracy 0.9", "held: accuracy 0.8", "with the group +0.010"],
    "rows_that_change": [
        "track=False: accuracy on the last 500 rows 0.7",
        "track=True: accuracy on the last 500 rows 0.9",
    ],
}


@pytest.fixture(scope="module")
def group() -> Any:
    for module in pkgutil.iter_modules(flows.cli.__path__, "flows.cli."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return typer.main.get_command(importlib.import_module("flows.cli.commands").app)


def parsed(group: Any, words: list[str]) -> tuple[str, dict[str, Any]]:
    """Parse words like the command line, without running the command; return the command and its parameters."""
    while words[:1] == ["--extension"]:
        use_extension(ROOT / words[1])
        words = words[2:]
    command, name, context = group, "okl", group.context_class(group, info_name="okl")
    while hasattr(command, "commands"):
        if not words:
            return name, {}
        command, name, words = command.get_command(context, words[0]), f"{name} {words[0]}", words[1:]
        assert command is not None, f"there is no command {name}"
        context = command.context_class(command, info_name=name, parent=context)
    command.parse_args(context, words)
    return name, {**context.params, SOLVER_OPTIONS: context.meta.get(SOLVER_OPTIONS)}


def shell_commands(path: Path) -> Iterator[str]:
    """Yield each command of okl in the shell blocks and the indented blocks of a page."""
    text = path.read_text()
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) + re.findall(r"(?:^    \S.*\n)+", text, re.MULTILINE):
        for part in re.split(r"\n|&&|;", block.replace("\\\n", " ")):
            command = re.sub(r'^eval "\$\((.*)\)"', r"\1", part.strip())
            if matched := re.match(r"(?:\S*/)?okl(\s.*|$)", command):
                yield f"okl{matched[1]}"


@pytest.mark.parametrize(
    "path", [path for path in READ if path != OF_EXAMPLES], ids=lambda path: str(path.relative_to(ROOT))
)
def test_the_command_line_accepts_every_command_of_a_page(path: Path, group: Any) -> None:
    for line in shell_commands(path):
        try:
            name, words = parsed(group, shlex.split(line, comments=True)[1:])
            train_words = {field: words[field] for field in TRAIN.fields if words.get(field) not in (None, ())}
            ingest_words = {field: words[field] for field in INGEST.fields if words.get(field) not in (None, ())}
            if name == "okl train" and words.get("dataset"):
                options = TRAIN.given(dict.fromkeys(TRAIN.fields) | train_words, words[SOLVER_OPTIONS])
                settings_from(TrainSettings, options | {"data": "x"}, line)
                settings_from(IngestSettings, INGEST.given(dict.fromkeys(INGEST.fields) | ingest_words), line)
        except Exception as error:
            raise AssertionError(f"{path.name}: {line}: {error}") from error


def test_pages_contain_commands() -> None:
    counted = {str(path.relative_to(ROOT)): len(list(shell_commands(path))) for path in READ}
    assert counted["infra/README.md"] >= 12
    assert counted["infra/docs/how-to/operate.md"] >= 8
    assert counted["infra/docs/how-to/extend.md"] >= 7
    assert counted["infra/docs/tutorial/first-model.md"] >= 7
    assert sum(counted.values()) >= 80


def test_every_command_has_its_help_on_a_page(group: Any) -> None:
    pages = [page.read_text() for page in (DOCS / "reference").glob("commands*.md")]
    documented = {words for page in pages for words in re.findall(r"^\.\. okl-help::(.*)$", page, re.MULTILINE)}
    names = {""}
    for name, command in group.commands.items():
        subcommands = getattr(command, "commands", None)
        names |= {f" {name}"} if subcommands is None else {f" {name} {subcommand}" for subcommand in subcommands}
    assert documented == names


def test_readme_names_every_command(group: Any) -> None:
    rows = re.findall(r"^\| (`okl .*?) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    commands = {name for row in rows for name in re.findall(r"`okl (\w+)", row)}
    assert commands == set(group.commands)


def test_pages_are_in_the_table_of_contents() -> None:
    index = (DOCS / "index.md").read_text()
    blocks = re.findall(r"```{toctree}\n(?::.*\n)*([^`]*)```", index)
    pages = {str(path.relative_to(DOCS).with_suffix("")) for path in PAGES} - {"index"}
    assert sorted(page for block in blocks for page in block.split()) == sorted(pages)


def test_the_help_of_every_option_describes_its_default(group: Any) -> None:
    for command in group.commands.values():
        for subcommand in getattr(command, "commands", {"": command}).values():
            for option in subcommand.params:
                flag = getattr(option, "is_flag", False) and not option.secondary_opts
                if option.param_type_name != "option" or flag or option.required:
                    continue
                help_text = (
                    f"{option.help} {'[default: ]' if option.show_default and option.default is not None else ''}"
                )
                assert re.search(r"\[default: |none: |\(repeatable\)", help_text), (
                    f"{subcommand.name} {option.opts[0]}: {help_text}"
                )


def test_every_public_name_is_documented() -> None:
    documented = re.findall(r"^\.\. auto\w+:: (\S+)", "\n".join(path.read_text() for path in PAGES), re.MULTILINE)
    settings = re.findall(r"^\.\. okl-settings:: (\S+)", (DOCS / "reference" / "settings.md").read_text(), re.MULTILINE)
    names = {name[4:] for name in documented if name.count(".") == 1} | set(settings)
    modules = {"extensions", "oco", "runs"}  # the last is a package that can be called
    assert set(okl.__all__) - {"__version__", *modules} == names
    of_oco = [
        name for name, one in vars(okl.oco).items() if getattr(one, "__module__", "").startswith("okl.solvers.oco.")
    ]
    assert len(of_oco) > 30
    assert {f"okl.oco.{name}" for name in of_oco} <= set(documented)
    assert {f"okl.extensions.{name}" for name in ("add_loss", "add_model", "add_map", "use_extension")} <= set(
        documented
    )


@pytest.mark.parametrize("path", READ, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]*)\)", path.read_text()):
        if target.startswith("http"):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file) if file else path
        assert linked.exists(), f"{path.name}: {target}"
        headings = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE) if anchor else []
        assert not anchor or anchor in {
            re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings
        }, target


def test_names_on_pages_exist() -> None:
    """Check files and dotted names of okl in the text of pages."""
    for path in PAGES:
        text = path.read_text()
        for included in re.findall(r"{literalinclude} (\S+)", text):
            assert (path.parent / included).is_file(), f"{path.name}: {included}"
        for name in set(re.findall(r"`(okl(?:\.\w+)+)`", text)) - EVENTS:
            parts = name.split(".")
            value: Any = okl
            for index, part in enumerate(parts[1:], start=2):
                value = getattr(value, part, None) or importlib.import_module(".".join(parts[:index]))
            assert value is not None


@pytest.mark.parametrize("name", [*WRITES, *LEARNS])
def test_an_example_prints_what_its_page_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OKL_HOME", str(tmp_path / "home"))
    main = runpy.run_path(str(DOCS / "examples" / f"{name}.py"))["main"]
    main(tmp_path) if name in WRITES else main()
    out = capsys.readouterr().out
    for text in (WRITES | LEARNS)[name]:
        assert text in out
