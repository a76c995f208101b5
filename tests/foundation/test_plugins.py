"""Extensions in files and packages: the origin of each name, and the effect of failing imports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from okl.foundation import plugins
from okl.foundation.errors import ConfigError
from okl.foundation.plugins import remove_extension, use_extension
from okl.foundation.settings import settings_from
from okl.losses import make_loss
from okl.solvers.settings import TrainSettings

FUNCTIONS = """
def value(score, target):
    return 0.5 * (score - target) ** 2

def slope(score, target):
    return score - target
"""
ADD = "from okl.extensions import add_loss\n{}\nadd_loss('{}', task='regression', value=value, derivative=slope)\n"


@pytest.fixture
def no_extensions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start without declared extensions, and remove those that a test declares."""
    monkeypatch.setattr(plugins, "_exact", {})
    monkeypatch.setattr(plugins, "_latest", {})
    monkeypatch.setattr(plugins, "_loaded", set())
    before = plugins.files()
    yield
    for module, file in plugins.files().items():
        if module not in before:
            remove_extension(file)


def test_a_file_may_add_imported_names(no_extensions: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "elsewhere_defined.py").write_text(FUNCTIONS)
    (tmp_path / "adding.py").write_text(ADD.format("from elsewhere_defined import slope, value", "imported"))
    use_extension(tmp_path / "adding.py")
    assert plugins.origins("imported")["imported"].startswith("adding.py ")
    assert plugins.elsewhere("imported").startswith("imported: defined in a file")


def test_names_added_by_a_module_belong_to_its_package(
    no_extensions: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for file, text in {
        "okl_parts-2.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: okl-parts\nVersion: 2.0\n",
        "okl_parts-2.0.dist-info/entry_points.txt": "[okl.extensions]\nall = parts.declared\n",
        "parts/__init__.py": "",
        "parts/declared.py": "import parts.losses\n",
        "parts/losses.py": ADD.format(FUNCTIONS, "of-parts"),
    }.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    make_loss("of-parts")
    assert plugins.origins("of-parts") == {"of-parts": "okl-parts 2.0"}
    assert plugins.packages() == ("okl-parts",)


def test_two_files_may_not_add_the_same_name(no_extensions: None, tmp_path: Path) -> None:
    for name in ("my first.py", "my second.py"):
        (tmp_path / name).write_text(f"# {name}\n" + ADD.format(FUNCTIONS, "twice"))
    use_extension(tmp_path / "my first.py")
    with pytest.raises(ConfigError, match=r"'twice' is defined by my first\.py \w+ and by my second\.py"):
        use_extension(tmp_path / "my second.py")


def test_a_file_that_fails_during_import_registers_nothing(no_extensions: None, tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text(ADD.format(FUNCTIONS, "half") + "raise RuntimeError('no more')\n")
    with pytest.raises(ConfigError, match=r"half\.py fails .* no more"):
        use_extension(tmp_path / "half.py")
    assert plugins.names("loss") == ()
    assert plugins.classes() == {}


def test_a_file_that_fails_after_an_edit_keeps_the_previous_version(no_extensions: None, tmp_path: Path) -> None:
    path = tmp_path / "edited.py"
    path.write_text(ADD.format(FUNCTIONS, "edited"))
    use_extension(path)
    before = make_loss("edited")
    path.write_text(ADD.format(FUNCTIONS, "edited") + "raise RuntimeError('no more')\n")
    with pytest.raises(ConfigError, match="no more"):
        use_extension(path)
    assert make_loss("edited") == before


def test_an_error_in_an_extension_is_quoted(
    no_extensions: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Bad.py").write_text("import NotInstalled\n")
    monkeypatch.setenv(plugins.VARIABLE, str(tmp_path / "Bad.py"))
    with pytest.raises(ConfigError) as raised:
        settings_from(TrainSettings, {"data": "rows", "loss": "My-Loss"}, "options")
    assert str(raised.value) == (
        "options: loss = 'My-Loss': the extension Bad.py fails when it is imported: ModuleNotFoundError: No module "
        "named 'NotInstalled'."
    )
