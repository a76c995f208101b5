"""JSON that states its own digest: a changed byte, white space included, is noticed by whoever reads it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from okl.errors import DataError, RegistryError
from okl.store.places import Place

FORMAT_VERSION = 1
SEAL = "sha256"


def seal(content: Mapping[str, Any]) -> bytes:
    """The bytes of a file, with the version of its format in front and its digest at the end."""
    body = {"format_version": FORMAT_VERSION, **{name: value for name, value in content.items() if name != SEAL}}
    return _text({**body, SEAL: hashlib.sha256(_text(body)).hexdigest()})


def read_sealed(place: Place, advice: str) -> dict[str, Any]:
    """What a sealed file holds, its digest included.

    advice : what to do if it is missing or damaged: a sentence

    Raises
    ------
    RegistryError : it is missing, damaged, or written by a later okl
    """
    try:
        stored = place.read_bytes()
    except DataError as error:
        raise RegistryError(f"{error} {advice}") from None
    except OSError as error:
        raise RegistryError(f"{place} cannot be read ({error.strerror}). {advice}") from None
    try:
        content = json.loads(stored)
        version = content["format_version"]
    except (ValueError, KeyError, TypeError):
        raise RegistryError(f"{place} is damaged: it is no JSON of a registry. {advice}") from None
    if version > FORMAT_VERSION:
        raise RegistryError(
            f"{place} has format {version}, of a later okl; this one reads up to {FORMAT_VERSION}. Upgrade okl."
        )
    if seal(content) != stored:
        raise RegistryError(f"{place} is damaged: its bytes do not have the sha256 that they state. {advice}")
    result: dict[str, Any] = content
    return result


def digest_of(content: Any) -> str:
    """The sha256 of what JSON can hold, whatever the order of names in it."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _text(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False).encode()
