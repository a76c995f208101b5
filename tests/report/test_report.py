"""Laws of reports: they contain every number, load nothing from outside, and never run anything from the data."""

from __future__ import annotations

import json
import re
import tomllib
from base64 import b64decode
from functools import cache
from html import unescape
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from okl.report.figures import DARK, LIGHT, confusion_matrix, convergence_curve, violation_curve
from okl.report.format import number, scalar_metrics
from okl.report.results import UNSHOWN, assess
from okl.report.sentences import summary_sentences
from okl.report.training import html_report, markdown_report, text_summary, write_report
from tests.report.results import figures_of, made_result, without_pictures

COVERS = ("Spruce/Fir", "Lodgepole Pine", "Ponderosa Pine", "Cottonwood", "Aspen", "Douglas-fir", "Krummholz")
HOSTILE = ("<script>alert(1)</script>", "木 a|b & $x^2$ `\\frac` \n[c](d) \U0001f332")
RESULTS: dict[str, dict[str, Any]] = {
    "binary": made_result("binary", ("no", "yes")),
    "multiclass": made_result("multiclass", COVERS),
    "many": made_result("multiclass", tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")),
    "hundred": made_result("multiclass", tuple(f"group {i}" for i in range(100))),
    "regression": made_result("regression"),
    "hostile": made_result("binary", HOSTILE, target='"><img src=x>$'),
}
TASKS = ("binary", "multiclass", "regression")
SVG = "{http://www.w3.org/2000/svg}"


class Reader(HTMLParser):
    """A parser that collects the tags, references (internal and external), headings and text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.references: list[str] = []
        self.anchors: list[str] = []
        self.ids: list[str] = []
        self.alts: list[str] = []
        self.headings: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        urls = [value or "" for name, value in attrs if name in ("src", "srcset", "href", "action")]
        self.anchors += [value for value in urls if value.startswith("#")]
        self.references += [value for value in urls if not value.startswith("#")]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.alts += [dict(attrs).get("alt") or ""] if tag == "img" else []
        self.headings += [""] if tag == "h2" else []

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"
        if self.headings and not self.headings[-1]:
            self.headings[-1] = data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


@cache
def page_of(name: str) -> str:
    return html_report(RESULTS[name])


def numbers_of(result: dict[str, Any]) -> list[str]:
    """Return every metric of every split of the model and its baselines, formatted as in the report."""
    sources = [result, *result["baselines"].values()]
    return [
        number(value)
        for source in sources
        for split in ("progressive", "train", "test")
        for name, value in scalar_metrics(source[split]).items()
        if UNSHOWN.get(name) not in source[split]
    ]


@pytest.mark.parametrize("name", RESULTS)
def test_page_contains_every_number_and_setting(name: str) -> None:
    result = RESULTS[name]
    reader = read(page_of(name))
    numbers = numbers_of(result)
    assert len(set(numbers)) > 8
    for text in [
        *numbers,
        result["weights_sha256"],
        result["dataset"]["sha256"],
        result["model"],
        "400",
        "standard",
        "1.457",
    ]:
        assert text in reader.text, text
    assert "345,678,901" in reader.text


@pytest.mark.parametrize("name", RESULTS)
def test_page_has_no_external_references(name: str) -> None:
    page = page_of(name)
    reader = read(page)
    assert len(reader.references) == len(figures_of(RESULTS[name])) >= 2
    assert all(reference.startswith("data:image/svg+xml;base64,") for reference in reader.references)
    assert [anchor.removeprefix("#") for anchor in reader.anchors] == reader.ids
    assert not {"script", "link", "iframe", "object"} & set(reader.tags)
    assert "//" not in re.sub(r"data:image/svg\+xml;base64,[^\"]*", "", page)
    assert "url(" not in page
    assert "default-src 'none'" in page


def test_names_from_the_data_are_escaped() -> None:
    result = RESULTS["hostile"]
    page, markdown = page_of("hostile"), markdown_report(result)
    reader = read(page)
    assert reader.tags.count("img") == len(figures_of(result))
    assert "<script>alert(1)</script>" in reader.text
    for report in (page, markdown):
        assert "<script" not in report
        assert "<img src=x" not in report
    line = next(line for line in markdown.splitlines() if line.startswith("| labels"))
    assert len(re.findall(r"(?<!\\)\|", line)) == 3
    assert "](d)" not in markdown.replace("\\](d)", "")
    assert "木" in unescape(markdown)


@pytest.mark.parametrize("name", RESULTS)
def test_pictures_are_small_and_differ(name: str) -> None:
    pictures = [b64decode(reference.partition(",")[2]) for reference in read(page_of(name)).references]
    assert all(is_svg(picture) and 2_000 < len(picture) < 60_000 for picture in pictures)
    assert len(set(pictures)) == len(pictures)
    assert len(page_of(name)) < 250_000


def is_svg(picture: bytes | str) -> bool:
    """Return whether a picture is well-formed SVG that shows text as text."""
    root = ElementTree.fromstring(picture)
    return root.tag == f"{SVG}svg" and next(root.iter(f"{SVG}text"), None) is not None


@pytest.mark.parametrize("name", RESULTS)
def test_every_figure_has_a_caption_as_alternative_text(name: str) -> None:
    reader = read(page_of(name))
    drawn = figures_of(RESULTS[name])
    assert len(reader.alts) == len(drawn)
    for alt, picture in zip(reader.alts, drawn, strict=True):
        assert alt == f"{picture.title}. {picture.caption}"
        assert len(picture.caption) > 20


@pytest.mark.parametrize("name", RESULTS)
def test_sections_have_a_fixed_order(name: str) -> None:
    expected = ["How good is it?", "Can I trust it?"]
    expected += ["Which threshold?"] if RESULTS[name]["dataset"]["task"] == "binary" else []
    expected += ["Where are its mistakes?", "How did training go?"]
    expected += ["What was chosen, and why?", "What did it cost?", "How do I use it?", "Settings, data and provenance"]
    assert read(page_of(name)).headings == expected


def test_many_classes_are_listed_by_their_largest_confusions() -> None:
    text = read(page_of("hundred")).text
    assert "the confusion matrix of 100 classes is too large to draw" in text.lower()
    assert not [picture for picture in figures_of(RESULTS["hundred"]) if "onfusion" in picture.title]
    confusion = np.array(RESULTS["hundred"]["test"]["confusion"])
    mistakes = confusion - np.diag(confusion.diagonal())
    true, predicted = np.unravel_index(mistakes.argmax(), mistakes.shape)
    table = text.partition("Most confused classes")[2].split("\n")
    cells = [cell for cell in table if cell][5:9]
    assert cells[:3] == [f"group {true}", f"group {predicted}", f"{mistakes.max():,}"]


@pytest.mark.parametrize("name", ["multiclass", "regression"])
def test_the_same_result_gives_the_same_page(name: str) -> None:
    assert html_report(json.loads(json.dumps(RESULTS[name]))) == page_of(name)


@pytest.mark.parametrize(("name", "pictures"), [("binary", 5), ("regression", 3)])
def test_markdown_contains_every_number_and_its_pictures(name: str, pictures: int) -> None:
    result = RESULTS[name]
    markdown = markdown_report(result)
    assert markdown.count("](data:image/svg+xml;base64,") == len(figures_of(result)) == pictures
    text = markdown.replace("\\", "")
    assert all(value in text for value in numbers_of(result))


@pytest.mark.parametrize("task", TASKS)
def test_without_test_rows_the_run_is_assessed_by_its_progressive_error(task: str) -> None:
    result = without_pictures(RESULTS[task] | {"test": None})
    assert assess(result).split == "progressive"
    assert "(no test rows)" in summary_sentences(result)[1]
    page = read(html_report(result)).text
    assert "Test rows" not in page
    assert "Training rows" in page
    assert len(text_summary(result).splitlines()) > 8


def test_missing_parts_of_a_result_are_left_out() -> None:
    for result in ({}, {"baselines": {"majority": None, "linear": None}}, {"curve": [[10, 0.5, None, None]]}):
        assert "-" in read(html_report(result)).text
        assert markdown_report(result)
        assert text_summary(result)


def test_page_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    path = write_report(RESULTS["binary"], tmp_path / "report.html")
    assert path.read_text(encoding="utf-8") == page_of("binary")
    before = path.read_bytes()
    with pytest.raises(AttributeError):
        write_report({"test": "not a mapping"}, path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_template_and_style_are_in_the_wheel() -> None:
    build = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"]["packages"] == ["okl", "flows"]  # all files in them
    assert not {"exclude", "only-include", "artifacts"} & build["targets"]["wheel"].keys()
    files = {file.name for file in resources.files("okl.report").iterdir()}
    assert {"page.html.jinja", "page.css"} <= files


def test_a_convergence_curve_without_a_positive_gap_is_drawn() -> None:
    for points in ([[1, 0.0]], [[1, float("inf")]], [[1, float("inf")], [50, 0.0]]):
        assert is_svg(convergence_curve(points, None))


def test_the_violation_of_constraints_is_drawn_in_both_colour_schemes() -> None:
    points = [[100, 0.3, 0.3], [200, 0.2, 0.1]]
    picture = violation_curve(points)
    assert is_svg(picture)
    assert picture == violation_curve(points) != violation_curve([*points, [300, 0.1, 0.0]])
    text, style = ElementTree.fromstring(picture), "".join(ElementTree.fromstring(picture).itertext())
    used = {
        (use, colour)
        for element in text.iter()
        for use, colour in re.findall(r"(fill|stroke): (#[0-9a-f]{6})", element.get("style", ""))
    }
    assert {colour for _, colour in used} >= {LIGHT.ground, LIGHT.ink, LIGHT.faint, LIGHT.line, LIGHT.soft}
    dark = dict(zip(LIGHT, DARK, strict=True))
    for use, colour in used - {("fill", "#000000"), ("stroke", "#000000")}:
        assert f'[style*="{use}: {colour}"]{{{use}:{dark[colour]} !important}}' in style


def test_names_in_figures_are_escaped() -> None:
    hostile = '<script>&"]]>'
    picture = confusion_matrix([[5, 1], [2, 7]], [hostile, "b"])
    assert is_svg(picture)
    assert "<script" not in picture
    assert hostile in [element.text for element in ElementTree.fromstring(picture).iter(f"{SVG}text")]
