"""What a table of loaderx says of its streams beside Arrow's own types, so that they come back as they were."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from loaderx.dataset.schema import checked_metadata
from loaderx.dataset.spelling import DType, from_spelling, spelled

KEY = b"loaderx"


def note(dtype: DType, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The note of one stream; of its metadata, what JSON can hold."""
    return {"dtype": spelled(dtype), "metadata": {key: value for key, value in metadata.items() if is_json(value)}}


def is_json(value: Any) -> bool:
    """Whether a value comes back from JSON as it is."""
    try:
        return bool(json.loads(json.dumps(value)) == value)
    except (TypeError, ValueError):
        return False


def notes_of(schema: Any) -> dict[str, Any]:
    """Column -> its note; none where there are none, or they can't be read."""
    try:
        found = json.loads((schema.metadata or {}).get(KEY, b"{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def noted(found: Any, column: str) -> tuple[DType | None, dict[str, Any]]:
    """The dtype and metadata that a note says. ValueError where it says nothing sensible."""
    if found is None:
        return None, {}
    try:
        return from_spelling(found["dtype"]), checked_metadata(found["metadata"])
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"column {column!r}: what loaderx noted of it can't be understood: {error}") from error
