"""Several files where one source is taken: most often a pattern that the shell expanded before okl saw it."""

from __future__ import annotations

from collections.abc import Sequence
from glob import glob
from os.path import commonprefix, isfile
from shlex import join
from typing import Any

from typer.core import TyperCommand

from okl.errors import ConfigError


class TakesFiles(TyperCommand):
    """A command one of whose arguments is a source; says what to type where the shell made several files of it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words after the command; called by what runs commands.

        Raises
        ------
        ConfigError : more words than arguments, and several of them are files
        """
        ctx.allow_extra_args, words = True, [*args]
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            taken = [ctx.params[one.name] for one in self.get_params(ctx) if one.param_type_name == "argument"]
            files = [word for word in (*taken, *rest) if isinstance(word, str) and isfile(word)]
            if len(files) > 1:
                raise ConfigError(_told(files, ctx.command_path, words))
            ctx.fail(f"Got unexpected extra argument(s) ({' '.join(rest)})")
        return rest


def _told(files: Sequence[str], command: str, words: Sequence[str]) -> str:
    pattern = pattern_of(files)
    typed = [pattern if word == files[0] else word for word in words if word not in files[1:]]
    way = (
        f"Quote the pattern, so that the shell leaves it to okl: {command} {join(typed)}"
        if pattern
        else "Put them into a folder of their own, and give that."
    )
    return (
        f"{len(files)} files came ({files[0]}, {files[1]}{', ...' if len(files) > 2 else ''}), but {command} takes one "
        f"source, which may be many files of the same columns. {way}"
    )


def pattern_of(files: Sequence[str]) -> str:
    """A pattern of one asterisk that matches these files and no others; "" if there is none."""
    before = commonprefix(files)  # noqa: RUF071  letter by letter is what a pattern goes by
    after = commonprefix([file[len(before) :][::-1] for file in files])[::-1]  # noqa: RUF071
    pattern = f"{before}*{after}"
    return pattern if sorted(glob(pattern)) == sorted(files) else ""
