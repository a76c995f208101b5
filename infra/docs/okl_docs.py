"""Sphinx directives that generate pages from okl: help of commands, settings, docstrings."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable
from typing import Any

import typer
from docutils import nodes
from docutils.parsers.rst import Directive
from pydantic import BaseModel
from sphinx.application import Sphinx

import flows.cli
import okl
from flows.cli.options import ALL_OPTIONS, help_for, metavar
from okl.foundation.catalogue import SOLVERS
from okl.solvers.settings import solver_settings

_CODE = re.compile(r"(`[^`]+`)")
_ENTRY = re.compile(r"([A-Za-z_][\w, .*]*) : (.*)")
_MARKS = re.compile(r"([*|\\]|(?<=\w)_(?!\w)|(?<=\w)@(?=\w))")  # @: NAME@VERSION would become a mail address


def command(words: list[str]) -> Any:
    """Return the click command of words such as ["models", "list"], and its context."""
    for module in pkgutil.iter_modules(flows.cli.__path__, "flows.cli."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    result: Any = typer.main.get_command(importlib.import_module("flows.cli.commands").app)
    context: Any = None
    for word in ["okl", *words]:
        if context is not None:
            result = result.get_command(context, word)
        context = type(result).context_class(result, info_name=word, parent=context, max_content_width=100)
    return result, context


class CommandHelp(Directive):
    """The output of `okl WORDS --help-all`."""

    optional_arguments = 5
    has_content = False

    def run(self) -> list[nodes.Node]:
        """Return a literal block."""
        target, context = command(self.arguments)
        context.meta[ALL_OPTIONS] = True
        text = target.get_help(context)
        return [nodes.literal_block(text, text, language="text")]


def definitions(entries: Iterable[tuple[str, str, str]]) -> nodes.Node:
    """Return a definition list of names, the values they take, and their meanings."""
    listed = nodes.definition_list()
    for name, values, meaning in entries:
        term = nodes.term("", "", nodes.literal("", name), nodes.Text(f"  {values}"))
        listed += nodes.definition_list_item("", term, nodes.definition("", nodes.paragraph("", meaning)))
    return listed


class SettingsTable(Directive):
    """The fields of TrainSettings or IngestSettings: name, values, meaning and default."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return a definition list."""
        kind = getattr(okl, self.arguments[0])
        fields = [(kind, name) for name in kind.model_fields if name != "options"]
        return [definitions(_entry(*field) for field in fields)]


class SolverOptions(Directive):
    """The options of all solvers, and the solvers with the options that each takes."""

    def run(self) -> list[nodes.Node]:
        """Return two definition lists."""
        kinds = {name: solver_settings(name) for name in SOLVERS}
        options = {option: kind for kind in reversed(kinds.values()) for option in kind.model_fields}
        solvers = [
            (name, "", f"{kind.SUMMARY}. Options: {', '.join(kind.model_fields)}.") for name, kind in kinds.items()
        ]
        return [definitions(solvers), definitions(_entry(kind, name) for name, kind in sorted(options.items()))]


def _entry(kind: type[BaseModel], name: str) -> tuple[str, str, str]:
    return name, metavar(kind.model_fields[name].annotation, name), help_for(kind, name)


def as_restructured_text(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Convert docstrings with numpydoc sections and one-line entries to reStructuredText.

    A section becomes a rubric, `name : meaning` a definition. Characters of formulas that are markup in docutils are
    escaped.
    """
    out: list[str] = []
    formula = False
    for at, line in enumerate(lines):
        below = lines[at + 1] if at + 1 < len(lines) else ""
        formula = line.startswith(" ") and (formula or (at > 0 and not lines[at - 1]))
        if formula:
            out += [line] if lines[at - 1] else ["::", "", line]
        elif below and set(below) == {"-"}:
            out += ["", f".. rubric:: {line}", ""]
        elif line and set(line) == {"-"}:
            continue
        elif line.startswith(("Source", ">>>")) and at and not lines[at - 1].startswith(">>>"):
            out += ["", _plain(line)]
        elif entry := _ENTRY.match(line):
            out += ["", _plain(entry[1]), f"   {_plain(entry[2])}"]
        elif line.startswith(" ") and at and lines[at - 1]:
            out.append(f"   {_plain(line.strip())}" if out[-1].startswith("   ") else _plain(line.strip()))
        elif out and out[-1].startswith(" ") and line:
            out += ["", _plain(line)]
        else:
            out.append(_plain(line))
    lines[:] = [*out, ""]


def _plain(line: str) -> str:
    if line.startswith((">>>", "...")):
        return line
    parts = _CODE.split(line)
    parts[::2] = [_MARKS.sub(r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [f"`{part}`" for part in parts[1::2]]
    return "".join(parts)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives and the conversion of docstrings."""
    app.add_directive("okl-help", CommandHelp)
    app.add_directive("okl-settings", SettingsTable)
    app.add_directive("okl-solver-options", SolverOptions)
    app.connect("autodoc-process-docstring", as_restructured_text)
    return {"parallel_read_safe": True}
