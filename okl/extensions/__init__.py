"""Files and packages that add a loss, a model or a map to okl; they are written with `okl.extending`."""

from okl.extensions.declared import GROUP, VARIABLE, Declared, Kind, classes, declare, elsewhere, origins, packages
from okl.extensions.running import adopt, exactly, files, find, names, offer, use_extension
from okl.extensions.sourcefiles import SourceFile

__all__ = [
    "GROUP",
    "VARIABLE",
    "Declared",
    "Kind",
    "SourceFile",
    "adopt",
    "classes",
    "declare",
    "elsewhere",
    "exactly",
    "files",
    "find",
    "names",
    "offer",
    "origins",
    "packages",
    "use_extension",
]
