"""TOML files that people write, with errors that name the option by which a file was given."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from okl.errors import ConfigError


def read_toml(path: str | Path, option: str) -> dict[str, Any]:
    """The values of a file. option : such as "--config", for errors

    Raises
    ------
    ConfigError : it cannot be read, or is not TOML in UTF-8
    """
    try:
        with open(path, "rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise ConfigError(f"{option} {path} cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{option} {path} is not TOML: {error}.") from None
