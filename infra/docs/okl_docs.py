"""Sphinx directives that generate pages from okl: help of commands, settings, docstrings."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

import typer
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

import flows.cli
import okl
from flows.cli.options import help_for, metavar

_CODE = re.compile(r"(`[^`]+`)")
_ENTRY = re.compile(r"([A-Za-z_][\w, .*]*) : (.*)")
_MARKS = re.compile(r"([*|\\]|(?<=\w)_(?!\w))")


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
    """The output of `okl WORDS --help`."""

    optional_arguments = 5
    has_content = False

    def run(self) -> list[nodes.Node]:
        """Return a literal block."""
        target, context = command(self.arguments)
        text = target.get_help(context)
        return [nodes.literal_block(text, text, language="text")]


class SettingsTable(Directive):
    """The fields of TrainSettings or IngestSettings: name, values, meaning and default."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return a definition list."""
        kind = getattr(okl, self.arguments[0])
        entries = nodes.definition_list()
        for name, info in kind.model_fields.items():
            term = nodes.term("", "", nodes.literal("", name), nodes.Text(f"  {metavar(info.annotation, name)}"))
            meaning = nodes.definition("", nodes.paragraph("", help_for(kind, name)))
            entries += nodes.definition_list_item("", term, meaning)
        return [entries]


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
    app.connect("autodoc-process-docstring", as_restructured_text)
    return {"parallel_read_safe": True}
