"""Where okl keeps what nobody gave a place: OKL_HOME, or .okl in the user's home folder."""

from __future__ import annotations

import os
from pathlib import Path

from okl.errors import ConfigError


def okl_home() -> Path:
    """The folder, made if need be, or ConfigError if it cannot be."""
    folder = Path(os.environ.get("OKL_HOME") or Path.home() / ".okl").expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"okl's home folder {folder} cannot be made ({error.strerror}). Set OKL_HOME to a writable folder."
        ) from None
    return folder
