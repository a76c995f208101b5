"""Exception classes that okl raises for bad input, failed runs and damaged files.

Every message states what was expected, what was found, where and what to do. The command line prints it and
exits with `exit_code`; anything that is not an `OklError` is a bug in okl.
"""

import re
from collections.abc import Sequence

NOT_CONVERGED = 3  # exit code of a command whose model is saved, but whose solver ended above its tolerance

CONTROLS = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]")


def first_line(error: BaseException) -> str:
    """Return the first line of a message, without a full stop, for the middle of a sentence, or the kind of error."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (text.strip().splitlines() or [type(error).__name__])[0].rstrip(". ")


def listed(texts: Sequence[str], most: int = 5) -> str:
    """Return texts with commas between them, at most some of them, and the number of the others.

    >>> listed(["a", "b"]), listed(["a", "b", "c"], 1)
    ('a, b', 'a and 2 more')
    """
    return ", ".join(texts[:most]) + (f" and {len(texts) - most:,} more" if len(texts) > most else "")


def first_of(texts: Sequence[str], most: int) -> str:
    """Return texts with commas between them, at most some of them, and three points for the others."""
    return ", ".join([*texts[:most], *(["..."] if len(texts) > most else [])])


def quoted(text: str, most: int = 60) -> str:
    """Return a text between quotes, at most some of its characters, and three points for the others."""
    return repr(text if len(text) <= most else f"{text[:most]}...")


class OklError(Exception):
    """Base of all errors that a user of okl can cause or correct."""

    exit_code = 2
    passing = False  # whether a retry may succeed

    def __str__(self) -> str:
        """Return the message on one line: quoted names and values may contain line ends or control characters."""
        return CONTROLS.sub(lambda match: repr(match[0])[1:-1], super().__str__())


class ConfigError(OklError, ValueError):
    """An option, or a combination of options, that okl cannot run with."""


class AssumptionWarning(UserWarning):
    """A theorem's assumption that a problem or its rounds do not meet: the method runs, but its bounds are void."""


class DataError(OklError, ValueError):
    """Rows, columns or files with invalid or missing content."""


class LocationError(DataError):
    """A file, folder or store that cannot be read or written now, independent of its content."""


class LocationTakenError(ConfigError):
    """A location where another process is writing, or where a result exists."""


class ModelError(OklError, ValueError):
    """A model folder that is missing, damaged, written by a later okl, or does not fit the rows it is given."""


class CheckpointError(OklError, ValueError):
    """A checkpoint that is missing or damaged, or that belongs to other data, other settings or another okl."""


class RegistryError(OklError, ValueError):
    """A model registry, or a version or alias in it, that is missing, damaged, or cannot be changed as requested."""


class ConflictError(RegistryError):
    """A change whose basis another process has changed, so that it was not made; a retry may help."""

    exit_code = 1
    passing = True


class ExecutionError(OklError, RuntimeError):
    """Workers, a scheduler or a server that cannot do what is requested."""

    exit_code = 1
    passing = True


class DivergedError(OklError, ArithmeticError):
    """A learner whose weights are no longer finite, or worse than none; there is no model to save."""

    exit_code = 1
