"""The columns of an Arrow schema as streams, and what is done with nulls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from loaderx.converters.arrow.kinds import (
    InnerNullError,
    Kind,
    Needed,
    RefusedError,
    kind_of,
    packed_bytes,
    unwrapped,
    valid,
)
from loaderx.converters.arrow.notes import noted, notes_of
from loaderx.converters.naming import stream_names
from loaderx.converters.source import Array, StreamSpec, Values
from loaderx.dataset.dtypes import described, native, opaque
from loaderx.dataset.packed import Packed

NULLS = ("refuse", "mask", "nan")
VALID = ".valid"
"""What the name of a mask ends with."""


@dataclass(frozen=True)
class Column:
    """One stream of a table."""

    spec: StreamSpec
    path: tuple[str, ...]
    """The column, and the fields in it."""
    kind: Kind | None
    """None for a mask."""
    nulls: str

    def read(self, column: Any, first: int, where: str) -> Values:
        """The records of a chunked array of the whole column, of which the first is the record `first` of the source."""
        array = whole(column)
        for name in self.path[1:]:
            fields = [child.name for child in array.type]
            array = array.flatten()[fields.index(name)]
        array = unwrapped(array)
        if self.kind is None:
            return valid(array)
        try:
            if not array.null_count:
                return self.kind.read(array, None)
            present = valid(array)
            self._may_be_null(present, first, where)
            return filled(self.kind.read(array, present), present, self.nulls)
        except InnerNullError as error:
            raise ValueError(
                f"{where}{self._what()}, record {first + error.at}: a null inside of it, which no dtype has"
            ) from None
        except ValueError as error:
            if str(error).startswith(where + self._what()):
                raise
            raise ValueError(f"{where}{self._what()}, from record {first} on: {error}") from error

    def _may_be_null(self, present: Array, first: int, where: str) -> None:
        assert self.kind is not None
        has_nan = self.kind.kind == "dense" and self.kind.dtype.kind in "fMm"
        if self.nulls == "mask" or (self.nulls == "nan" and has_nan):
            return
        ways = f"give nulls='mask' to add a stream {self.spec.name + VALID!r}"
        ways += ", or nulls='nan'" if has_nan else ""
        raise ValueError(
            f"{where}{self._what()}, record {first + int(np.flatnonzero(~present)[0])}: a null, which no dtype has; {ways}"
        )

    def _what(self) -> str:
        return f"column {'.'.join(self.path)!r}"


class Columns(NamedTuple):
    """All columns of a schema."""

    known: dict[str, Column]
    """By the name of the stream."""
    refused: dict[str, str]
    """Those that can't be a stream, and why."""


def columns_of(schema: Any, nulls: str | Sequence[str], utc: bool) -> Columns:
    """The streams of a schema. ValueError for options that are none."""
    masked = None if isinstance(nulls, str) else list(nulls)
    if masked is None and nulls not in NULLS:
        raise ValueError(f"nulls: expected one of {', '.join(NULLS)}, or a list of columns to mask, found {nulls!r}")
    kinds: dict[tuple[str, ...], tuple[Any, Kind | str]] = {}
    features, notes = features_of(schema), notes_of(schema)
    for at, arrow in enumerate(schema):
        if schema.names.count(arrow.name) > 1:
            raise ValueError(f"column {arrow.name!r}: there are several of this name (number {at} is one)")
        kinds.update(walked((arrow.name,), arrow.type, features.get(arrow.name), utc))
    names = stream_names(kinds, "column")
    columns = Columns({}, {})
    for path, (arrow, kind) in kinds.items():
        name = names[path]
        if isinstance(kind, str):
            columns.refused[name] = f"column {'.'.join(path)!r}: {kind}"
            continue
        dtype, metadata = noted(notes.get(path[0]) if len(path) == 1 else None, path[0])
        if dtype is not None and dtype.kind in "mM" and kind.dtype.kind in "mM":
            kind = kind_of(arrow, features.get(path[0]), utc, nat=True)
        kind = as_noted(kind, dtype, metadata, path[0])
        mode = nulls if masked is None else "mask" if name in masked else "refuse"
        if mode == "refuse" and dtype is not None and dtype.kind in "mM":
            mode = "nan"  # they were NaT
        origin = f"column {'.'.join(path)!r}: {arrow}"
        spec = StreamSpec(name, kind.kind, kind.dtype, kind.item_shape, origin, kind.metadata)
        columns.known[name] = Column(spec, path, kind, str(mode))
        if mode == "mask":
            add_mask(columns, names, spec, path)
    unknown = [name for name in masked or () if name not in columns.known]
    if unknown:
        raise ValueError(f"nulls: expected some of the columns {list(columns.known)}, found {unknown}")
    return columns


def as_noted(kind: Kind, dtype: np.dtype[Any] | None, metadata: Mapping[str, Any], column: str) -> Kind:
    """The kind that a stream of loaderx was: of the same values, in another byte order or of a dtype that Arrow doesn't have."""
    if dtype is None:
        return kind
    if kind.dtype.kind == "V" and kind.dtype.itemsize == dtype.itemsize:
        read = partial(changed, kind.read, lambda values: values.view(dtype))
    elif native(dtype) == kind.dtype:
        read = partial(changed, kind.read, lambda values: values.astype(dtype))
    else:
        raise ValueError(
            f"column {column!r}: loaderx noted dtype {described(dtype)}, and its values are {described(kind.dtype)}"
        )
    return replace(kind, dtype=dtype, read=read, metadata=dict(kind.metadata) | dict(metadata))


def changed(
    read: Callable[[Any, Needed], Values], change: Callable[[Array], Array], array: Any, needed: Needed
) -> Values:
    """What `read` gives, of another dtype."""
    values = read(array, needed)
    if isinstance(values, Packed):
        return values._replace(values=change(values.values))
    return change(np.asarray(values))


def add_mask(columns: Columns, names: Mapping[tuple[str, ...], str], spec: StreamSpec, path: tuple[str, ...]) -> None:
    """The stream that says where a column has values."""
    name = spec.name + VALID
    if name in names.values():
        raise ValueError(f"nulls: the mask of column {spec.name!r} would be the stream {name!r}, which is a column")
    mask = StreamSpec(name, "dense", np.dtype(bool), (), f"where column {'.'.join(path)!r} has a value")
    columns.known[name] = Column(mask, path, None, "mask")


def walked(
    path: tuple[str, ...], arrow: Any, feature: Any, utc: bool
) -> Iterator[tuple[tuple[str, ...], tuple[Any, Kind | str]]]:
    """The type and kind of a column; for a structure, those of its fields, and in them."""
    import pyarrow.types as is_

    name = feature.get("_type") if isinstance(feature, dict) else None
    if is_.is_struct(arrow) and name in ("Image", "Audio", "Video", "Pdf") and "bytes" in [f.name for f in arrow]:
        yield path, (f"{name}, encoded as it is", Kind("ragged", np.dtype(np.uint8), None, encoded))
    elif is_.is_struct(arrow) and arrow.num_fields:
        inner = feature if isinstance(feature, dict) and name is None else {}
        for child in arrow:
            yield from walked((*path, child.name), child.type, inner.get(child.name), utc)
    else:
        try:
            yield path, (arrow, kind_of(arrow, feature, utc))
        except RefusedError as error:
            yield path, (arrow, str(error))


def encoded(array: Any, needed: Needed) -> Packed:
    """The bytes of Hugging Face's images or sounds. ValueError where they are in files elsewhere."""
    names = [field.name for field in array.type]
    content = array.flatten()[names.index("bytes")]
    missing = ~valid(content) if needed is None else ~valid(content) & needed
    if missing.any():
        at = int(np.flatnonzero(missing)[0])
        path = array.field("path")[at].as_py() if "path" in names else None
        raise ValueError(
            f"value {at} has no bytes, only the path {path!r}; embed the files first (save_to_disk and push_to_hub do, "
            "or datasets.table.embed_table_storage), or convert the files themselves"
        )
    return packed_bytes(content, needed)


def whole(column: Any) -> Any:
    """A chunked array as one array."""
    import pyarrow as pa

    if not hasattr(column, "chunks"):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    chunks = [unwrapped(chunk) for chunk in column.chunks]
    return pa.concat_arrays(chunks) if chunks else unwrapped(pa.array([], column.type))


def filled(values: Values, present: Array, nulls: str) -> Values:
    """Dense records with zeros (NaN, NaT) in the places where there are none; ragged ones are empty there already."""
    if isinstance(values, Packed):
        return values
    records = np.array(values)
    nothing: Any = 0
    if nulls == "nan":
        nothing = np.nan if records.dtype.kind == "f" else np.array("NaT", records.dtype)
    opaque(records)[~present] = np.zeros((), opaque(records).dtype) if nulls == "mask" else nothing
    return records


def features_of(schema: Any) -> dict[str, Any]:
    """What Hugging Face's metadata says of the columns; nothing where there is none, or it can't be read."""
    try:
        found = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}
