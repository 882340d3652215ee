"""What the records of an old store mean: `schema.json` of loaderx 0.5 to 0.7, `schema.msgpack` of the later ones."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderx._core import read_small_file
from loaderx.copying.block import Block
from loaderx.dataset import schema as schemas
from loaderx.dataset.dtypes import DType, storable
from loaderx.dataset.schema import Kind, Schema, Shape, broken, checked_item_shape, shown, stored_shapes, typed, unpack
from loaderx.dataset.shapes import ROW_WIDTH, check_shape, rows_of
from loaderx.dataset.spelling import NamelessError, from_spelling
from loaderx.zrecord import CODECS, CorruptStoreError

JSON = "schema.json"
CODEC_NAMES = {**{name: name for name in CODECS}, "flate": "zstd"}
"""What codec the new store has for one that a schema names."""

TAKEN = {*schemas.CORE_KEYS, "shape", "ragged"}


@dataclass(frozen=True)
class Meaning:
    """What is known of the records besides their bytes."""

    kind: Kind
    dtype: DType
    item_shape: Shape
    """Dense: of each record. Ragged: of a record without its first dimension."""
    shapes: tuple[Shape, ...] | None
    """Of ragged records where each has its own (0.10 and later)."""
    metadata: Mapping[str, Any]

    def schema(self, codec: str) -> bytes:
        """The content of the new store's `schema.msgpack`."""
        item_shape = self.item_shape if self.kind == "dense" else None
        return schemas.encode(Schema(self.kind, self.dtype, codec, item_shape=item_shape, metadata=self.metadata))

    def check_length(self, path: Path, length: int) -> None:
        """CorruptStoreError unless there is a shape for each record, where each has its own."""
        if self.shapes is not None and len(self.shapes) != length:
            raise CorruptStoreError(f"{path}: expected a shape for each of {length} records, found {len(self.shapes)}")

    def applied(self, path: Path, block: Block) -> Block:
        """The block with the shapes of its records. CorruptStoreError where they don't fit their bytes."""
        lengths = np.diff(block.offsets)
        row = math.prod(self.item_shape) * self.dtype.itemsize
        if self.kind == "dense":
            self._check(
                path, block, lengths == row, f"{row} bytes of {self.dtype.str!r} and {self.item_shape}", lengths
            )
            return block
        if self.shapes is not None:
            shapes = self.shapes[block.first : block.first + len(block)]
            sizes = np.array([math.prod(shape) * self.dtype.itemsize for shape in shapes], object)
            self._check(path, block, np.equal(sizes, lengths).astype(bool), "the bytes of its shape", lengths)
            for at, shape in enumerate(shapes):
                try:
                    check_shape(shape, f"{path}: record {block.first + at}")
                except ValueError as error:
                    raise CorruptStoreError(str(error)) from error
            rows = rows_of(shapes)
        else:
            fits = lengths % row == 0 if row else lengths == 0
            self._check(
                path, block, fits, f"a multiple of {row} bytes of {self.dtype.str!r} and {self.item_shape}", lengths
            )
            rows = self._rows(lengths, row)
        return Block(block.first, block.values, block.offsets, rows)

    def _rows(self, lengths: npt.NDArray[np.int64], row: int) -> npt.NDArray[np.uint32] | None:
        if not self.item_shape:
            return None
        rows = np.zeros((len(lengths), ROW_WIDTH), np.uint32)
        rows[:, 0] = len(self.item_shape) + 2
        rows[:, 1] = lengths // row if row else 0
        rows[:, 2 : 2 + len(self.item_shape)] = self.item_shape
        return rows

    def _check(
        self, path: Path, block: Block, fits: npt.NDArray[np.bool_], expected: str, lengths: npt.NDArray[np.int64]
    ) -> None:
        if not fits.all():
            at = int(np.argmin(fits))
            raise CorruptStoreError(
                f"{path}: record {block.first + at}: expected {expected}, found {lengths[at]} bytes; "
                "dtype= and item_shape= say what the records are where the schema doesn't (dtype='|u1', item_shape=(): just bytes)"
            )


def read(path: Path, dtype: npt.DTypeLike | None, item_shape: Shape | None) -> tuple[Meaning | None, str | None]:
    """What the store's schema says, or the arguments instead of it; and the new store's codec. None for plain byte records.

    ValueError where neither tells, CorruptStoreError for a schema that is none.
    """
    file, values = content_of(path)
    declared = None if dtype is None else storable(dtype)
    if file is None:
        if declared is None:
            return None, None
        return Meaning("ragged", declared, checked(item_shape or (), "ragged", declared), None, {}), None
    if values.get("format") != schemas.FORMAT:
        broken(file, f"format = {schemas.FORMAT!r}", f"format = {shown(values.get('format'))}")
    codec = typed(values, "codec", str, file)
    if codec not in CODEC_NAMES:
        broken(file, f"codec = one of {', '.join(CODEC_NAMES)}", f"codec = {shown(codec)}")
    kind = kind_of(values, file)
    found = declared or stored_dtype(values, file)
    shapes = None
    if kind == "ragged" and "shapes" in values and item_shape is None and declared is None:
        shapes = stored_shapes(values, file)
    stated = values.get("item_shape", values.get("shape", () if kind == "ragged" else None))
    if item_shape is None and not isinstance(stated, (list, tuple)):
        raise ValueError(f"{file}: it states no shape; give item_shape=")
    try:
        shape = checked(stated if item_shape is None else item_shape, kind, found)
    except (TypeError, ValueError) as error:
        if item_shape is not None:
            raise
        raise CorruptStoreError(f"{file}: {error}") from error
    metadata = {key: value for key, value in values.items() if key not in TAKEN}
    return Meaning(kind, found, shape, shapes, metadata), CODEC_NAMES[codec]


def content_of(path: Path) -> tuple[Path | None, dict[str, Any]]:
    """The schema's file and what it holds."""
    for name in (schemas.FILE, JSON):
        file = path / name
        try:
            size = file.stat().st_size
        except FileNotFoundError:
            continue
        if size > schemas.SIZE_LIMIT:
            broken(file, f"at most {schemas.SIZE_LIMIT} bytes", f"{size} bytes")
        content = read_small_file(file)
        return file, from_json(content, file) if name == JSON else unpack(content, file)
    return None, {}


def from_json(content: bytes, file: Path) -> dict[str, Any]:
    """The object that `content` holds."""
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CorruptStoreError(
            f"{file}: expected a JSON object, found {len(content)} bytes that are none: {error}"
        ) from error
    if not isinstance(values, dict):
        broken(file, "a JSON object", type(values).__name__)
    return values


def kind_of(values: Mapping[str, Any], file: Path) -> Kind:
    """Dense or ragged; the first releases had dense ones only."""
    kind = values.get("kind", "ragged" if values.get("ragged") is True else "dense")
    if kind not in ("dense", "ragged"):
        broken(file, "kind = 'dense' or 'ragged'", f"kind = {shown(kind)}")
    return "dense" if kind == "dense" else "ragged"


def stored_dtype(values: Mapping[str, Any], file: Path) -> DType:
    """The dtype that the schema names. ValueError if it names none: 0.9 wrote what it was given."""
    if "dtype" not in values:
        raise ValueError(f"{file}: it names no dtype; give dtype= and item_shape=")
    try:
        return from_spelling(typed(values, "dtype", str, file))
    except NamelessError:
        raise
    except ValueError as error:
        raise CorruptStoreError(f"{file}: dtype: {error}") from error


def checked(shape: Any, kind: Kind, dtype: DType) -> Shape:
    """The item shape; that of ragged records has one dimension less than they, so there is a limit to it."""
    found = checked_item_shape(shape, dtype)
    if kind == "ragged":
        check_shape((0, *found), "item_shape")
    return found
