"""Streams as Arrow columns: their types, and their records as arrays that share the memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from loaderx.converters.source import TEXT, Array
from loaderx.dataset import RaggedDataset
from loaderx.dataset.dtypes import DType, native, opaque
from loaderx.dataset.named import name_of
from loaderx.dataset.packed import Packed
from loaderx.dataset.streams import Stream

UNITS = ("s", "ms", "us", "ns")
OFFSETS = (1 << 31) - 1
"""Arrow's lists and strings have offsets of 32 bits in each batch."""


def scalar_type(dtype: DType) -> Any:
    """The Arrow type of a dtype. One that Arrow doesn't have becomes binary values of its width, and a note says what they are."""
    import pyarrow as pa

    if dtype.kind in "biuf" and dtype.itemsize <= 8 and name_of(dtype) is None:
        return pa.from_numpy_dtype(native(dtype))
    if dtype.kind in "mM":
        unit, count = np.datetime_data(dtype)
        if unit in UNITS and count == 1:
            return pa.timestamp(unit) if dtype.kind == "M" else pa.duration(unit)
    return pa.binary(dtype.itemsize)


class Column:
    """One stream as a column."""

    def __init__(self, name: str, stream: Stream) -> None:
        import pyarrow as pa

        self._name, self._stream = name, stream
        self._scalar = scalar_type(stream.dtype)
        metadata = stream.metadata
        self._text = stream.dtype == np.uint8 and all(metadata.get(key) == value for key, value in TEXT.items())
        self._inner: tuple[int, ...] = ()
        if isinstance(stream, RaggedDataset):
            # The first record tells what the others must be like.
            self._inner = stream.shapes(0)[0][1:] if len(stream) else ()
            bytes_ = pa.string() if self._text else pa.binary()
            whole = stream.dtype == np.uint8 and not self._inner
            self.type = bytes_ if whole else pa.list_(nested(self._scalar, self._inner))
        else:
            self.type = nested(self._scalar, stream.item_shape)

    def array(self, values: Array | Packed, start: int) -> Any:
        """The records, of which the first is record `start`."""
        if not isinstance(values, Packed):
            return self._nested(values.reshape(-1), values.shape)
        return self._ragged(values, start)

    def _ragged(self, packed: Packed, start: int) -> Any:
        import pyarrow as pa

        count = len(packed.offsets) - 1
        shapes = packed.shapes or [(-1,)] * count
        for at, shape in enumerate(shapes if packed.shapes is not None or self._inner else ()):
            if len(shape) == 0 or shape[1:] != self._inner:
                first = ("k", *self._inner)
                raise ValueError(
                    f"stream {self._name!r}, record {start + at}: its shape {shape} does not fit a column of lists; "
                    f"expected ({', '.join(map(str, first))}) as record 0 has it"
                )
        width = math.prod(self._inner)
        offsets = packed.offsets // max(1, width) if width else np.concatenate([[0], np.cumsum([s[0] for s in shapes])])
        if offsets[-1] > OFFSETS:
            raise ValueError(
                f"stream {self._name!r}, record {start}: expected at most {OFFSETS} items, found {offsets[-1]}"
            )
        ends = pa.py_buffer(offsets.astype(np.int32))
        if pa.types.is_list(self.type):
            child = self._nested(packed.values, (int(offsets[-1]), *self._inner))
            return pa.Array.from_buffers(self.type, count, [None, ends], children=[child])
        array = pa.Array.from_buffers(self.type, count, [None, ends, pa.py_buffer(packed.values)])
        if self._text:
            self._check_text(array, packed, start)
        return array

    def _check_text(self, array: Any, packed: Packed, start: int) -> None:
        import pyarrow as pa

        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            for at in range(len(array)):
                record = packed.values[packed.offsets[at] : packed.offsets[at + 1]].tobytes()
                try:
                    record.decode()
                except UnicodeDecodeError as error:
                    raise ValueError(
                        f"stream {self._name!r}, record {start + at}: it is said to be text, and is no UTF-8: {error}"
                    ) from None
            raise

    def _nested(self, items: Array, shape: tuple[int, ...]) -> Any:
        """All items, in order, as (n, *shape of a value)."""
        import pyarrow as pa

        array = scalars(items, self._scalar)
        for at in range(len(shape) - 1, 0, -1):
            arrow = pa.list_(array.type, shape[at])
            array = pa.Array.from_buffers(arrow, math.prod(shape[:at]), [None], children=[array])
        return array


def nested(scalar: Any, shape: tuple[int, ...]) -> Any:
    """The type of values of a shape."""
    import pyarrow as pa

    for size in reversed(shape):
        scalar = pa.list_(scalar, size)
    return scalar


def scalars(items: Array, arrow: Any) -> Any:
    """Items as an Arrow array that has their memory, except bools; NaT is null."""
    import pyarrow as pa

    if pa.types.is_boolean(arrow):
        return pa.array(items)
    is_binary = pa.types.is_fixed_size_binary(arrow)
    ready = opaque(items) if is_binary else items.astype(native(items.dtype), copy=False)
    valid = None
    if items.dtype.kind in "mM" and not is_binary and (missing := np.isnat(items)).any():
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    raw = np.ascontiguousarray(ready).view(np.uint8) if items.size else np.zeros(0, np.uint8)
    return pa.Array.from_buffers(arrow, len(items), [valid, pa.py_buffer(raw)])
