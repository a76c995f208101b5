"""Modules of extensions that are single files: known by name and digest, in every process that gets their text."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from dataclasses import dataclass
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import CodeType
from typing import Any

from okl.errors import ConfigError


@dataclass(frozen=True)
class SourceFile:
    """A file as it was when it was read: other processes get the text, wherever they run."""

    name: str
    text: str
    sha256: str

    @property
    def module(self) -> str:
        """Name that its module has in every process; a file that was changed is another module."""
        stem = re.sub(r"\W", "_", Path(self.name).stem)
        return f"okl_extension_{stem}_{self.sha256[:12]}"


KNOWN: dict[str, SourceFile] = {}
"""Those that this process may import, by module."""


def read_file(path: str | os.PathLike[str]) -> SourceFile:
    """A file as it is now.

    Raises
    ------
    ConfigError : it cannot be read as text
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The extension {os.fspath(path)} cannot be read ({error}). Give a file of Python.") from None
    return SourceFile(Path(path).name, text, hashlib.sha256(text.encode()).hexdigest())


def forget(file: SourceFile) -> None:
    """As if it had never been run."""
    KNOWN.pop(file.module, None)
    sys.modules.pop(file.module, None)


class _Loader(InspectLoader):
    """Loads the module of a file from its text."""

    def get_source(self, fullname: str) -> str:
        return KNOWN[fullname].text

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.get_source(fullname), KNOWN[fullname].name, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Finds the modules of files by name, as pickled classes ask for them."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return spec_from_loader(fullname, _Loader(), origin=KNOWN[fullname].name) if fullname in KNOWN else None


sys.meta_path.append(_Finder())
