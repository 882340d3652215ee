"""What a conversion is about, so that one that was cut goes on only as what it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loaderx._core import read_small_file, replace_file
from loaderx.converters.encoding import Chosen, Encoding
from loaderx.converters.identity import identity_of
from loaderx.converters.source import Source
from loaderx.dataset.spelling import spelled
from loaderx.zrecord import ZrecordError

FILE = "conversion.json"
VERSION = 1
SOURCE = "source"


def described(
    form: str, source: Source, chosen: Chosen, encodings: Mapping[str, Encoding], options: Mapping[str, Any]
) -> dict[str, Any]:
    """The job as plain JSON. Two jobs that are equal write equal stores, where their source is `known`."""
    return {
        "version": VERSION,
        "format": form,
        key_of(source): identity_of(source),
        "length": source.records,
        "streams": [
            [
                spec.name,
                chosen.sources[spec.name],
                spec.kind,
                repr(spelled(spec.dtype)),
                str(spec.item_shape),
                spec.origin,
            ]
            for spec in chosen.specs
        ],
        "encodings": {name: [one.codec, one.level, digest(one.dictionary)] for name, one in encodings.items()},
        "options": {name: repr(value) for name, value in sorted(options.items())},
    }


def key_of(source: Source) -> str:
    """What the identity of a source is called."""
    return "files" if source.files else SOURCE


def known(description: Mapping[str, Any]) -> bool:
    """Whether it says which source it is of."""
    return description.get(SOURCE, "") is not None


def digest(dictionary: bytes | None) -> str | None:
    """A dictionary in few characters."""
    return None if dictionary is None else hashlib.sha256(dictionary).hexdigest()


def unchanged(description: Mapping[str, Any], source: Source) -> None:
    """ZrecordError if the source is another one than at the start."""
    if identity_of(source) != description[key_of(source)]:
        what = f"{source.files[0]}: this file, or one of those with it," if source.files else "the source"
        raise ZrecordError(f"{what} was changed while it was converted; convert it again")


def write(directory: Path, description: Mapping[str, Any]) -> None:
    """Say in `directory` what it is there for."""
    replace_file(directory / FILE, json.dumps(description, indent=1).encode())


def differences(directory: Path, description: Mapping[str, Any]) -> list[str]:
    """In what the conversion that was cut in `directory` was another one; nothing where it was this one."""
    try:
        found = json.loads(read_small_file(directory / FILE))
    except (OSError, ValueError):
        return ["what it was of can't be read"]
    if not isinstance(found, dict):
        return ["what it was of can't be read"]
    keys = sorted(description.keys() | found.keys())
    return [
        f"{key}: was {found.get(key)}, is {description.get(key)}"
        for key in keys
        if found.get(key) != description.get(key)
    ]
