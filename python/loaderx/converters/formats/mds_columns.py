"""What becomes of the columns of MDS shards, by their encodings."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from loaderx.converters.formats.pieces import check_text
from loaderx.converters.source import TEXT, StreamSpec, Values
from loaderx.dataset.dtypes import DType, described
from loaderx.dataset.packed import Packed

NUMBERS = (
    "uint8", "int8", "uint16", "int16", "float16", "uint32", "int32", "float32", "uint64", "int64", "float64",
)  # fmt: skip
TEXTS = ("str", "json", "str_int", "str_float", "str_decimal")
BYTES = ("bytes", "pil", "png", "jpeg", "jpeg_array", "jpegarray", "list[pil]", "list[png]", "list[jpeg]")
CODES = {
    8: "u1",
    9: "i1",
    16: "<u2",
    17: "<i2",
    18: "<f2",
    32: "<u4",
    33: "<i4",
    34: "<f4",
    64: "<u8",
    65: "<i8",
    66: "<f8",
}
"""The first byte of an array whose encoding doesn't say its dtype."""
MOST_AXES = 8


@dataclass(frozen=True)
class Column:
    """A column."""

    name: str
    encoding: str
    size: int | None
    """The bytes of each value; None where they differ, and each sample says them."""

    def __post_init__(self) -> None:
        """ValueError for an encoding that nobody knows, or another size than the encoding has."""
        kind, dtype, shape = self.parsed
        if kind not in ("number", "array", "text", "bytes", "pickle"):
            raise ValueError(f"column {self.name!r}: encoding {self.encoding!r} is none that is known")
        expected = None if dtype is None or shape is None else dtype.itemsize * math.prod(shape)
        if (expected is not None and expected != self.size) or (expected is None and self.size is not None):
            raise ValueError(
                f"column {self.name!r}: expected values of {expected} bytes for {self.encoding!r}, found {self.size}"
            )

    @property
    def parsed(self) -> tuple[str, DType | None, tuple[int, ...] | None]:
        """What it is, dtype and shape, as far as the encoding says it."""
        name, _, rest = self.encoding.partition(":")
        if name == "int" or name in NUMBERS:
            return "number", np.dtype("<i8" if name == "int" else name), ()
        if name == "ndarray":
            dtype, _, axes = rest.partition(":")
            if (dtype and dtype not in NUMBERS) or (axes and not all(axis.isdecimal() for axis in axes.split(","))):
                return "unknown", None, None
            return "array", np.dtype(dtype) if dtype else None, tuple(map(int, axes.split(","))) if axes else None
        kinds = {**dict.fromkeys(TEXTS, "text"), **dict.fromkeys(BYTES, "bytes"), "pkl": "pickle"}
        return ("unknown" if rest else kinds.get(name, "unknown")), None, None

    @property
    def refused(self) -> str:
        """Why no stream can hold it; empty for all that can be read."""
        pickled = self.parsed[0] == "pickle"
        return f"column {self.name!r} is pickled, and unpickling runs what code it likes" if pickled else ""

    def spec(self, dtype: DType | None) -> StreamSpec:
        """Its stream; `dtype` is that of arrays which say it themselves."""
        kind, own, shape = self.parsed
        origin = f"column {self.name!r}: {self.encoding}"
        name = self.name.replace("/", ".")
        if kind in ("number", "array") and shape is not None and own is not None:
            return StreamSpec(name, "dense", own, shape, origin)
        if kind == "array":
            return StreamSpec(name, "ragged", own or dtype or np.dtype(np.uint8), None, origin)
        return StreamSpec(name, "ragged", np.dtype(np.uint8), None, origin, TEXT if kind == "text" else {})

    def read(self, packed: Packed, spec: StreamSpec, where: Callable[[int], str]) -> Values:
        """Values as they lie in samples, as records. ValueError for damaged ones; `where` names one."""
        kind, dtype, _ = self.parsed
        if spec.kind == "dense":
            values = np.ascontiguousarray(packed.values).view(spec.dtype)
            return values.reshape(len(packed.offsets) - 1, *(spec.item_shape or ()))
        if kind == "array":
            return arrays(packed, spec.dtype, dtype is None, where)
        return check_text(packed, where) if kind == "text" else packed


def arrays(packed: Packed, dtype: DType, coded: bool, where: Callable[[int], str]) -> Packed:
    """Arrays that say their shapes, and with `coded` their dtypes too."""
    content, offsets = packed.values.tobytes(), packed.offsets.tolist()
    shapes: list[tuple[int, ...]] = []
    pieces: list[bytes] = []
    for at in range(len(offsets) - 1):
        value = memoryview(content)[offsets[at] : offsets[at + 1]]
        if coded:
            check_code(value, dtype, where, at)
        shape, start = shape_at(value, 1 if coded else 0)
        if shape is None or len(value) - start != math.prod(shape) * dtype.itemsize:
            raise ValueError(
                f"{where(at)}: expected an array of {described(dtype)}, found {len(value)} bytes that are none of shape {shape}"
            )
        shapes.append(shape)
        pieces.append(bytes(value[start:]))
    starts = np.zeros(len(shapes) + 1, np.int64)
    np.cumsum([math.prod(shape) for shape in shapes], out=starts[1:])
    return Packed(np.frombuffer(b"".join(pieces), dtype), starts, shapes)


def check_code(value: memoryview, dtype: DType, where: Callable[[int], str], at: int) -> None:
    """ValueError unless an array says that it is of this dtype."""
    code = value[0] if len(value) else None
    if code is None or CODES.get(code) is None or np.dtype(CODES[code]) != dtype:
        found = described(np.dtype(CODES[code])) if code in CODES else f"code {code}"
        raise ValueError(
            f"{where(at)}: expected an array of {described(dtype)} as in the first sample, found {found}; a stream has one dtype"
        )


def shape_at(value: memoryview, at: int) -> tuple[tuple[int, ...] | None, int]:
    """The shape that an array says at a byte, and where that ends. None where there is none."""
    if len(value) <= at:
        return None, at
    axes, width = value[at] >> 2, 1 << (value[at] & 3)
    end = at + 1 + axes * width
    if axes > MOST_AXES or len(value) < end:
        return None, end
    sizes = (value[start : start + width] for start in range(at + 1, end, width))
    return tuple(int.from_bytes(size, "little") for size in sizes), end
