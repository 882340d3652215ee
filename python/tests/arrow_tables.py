"""Arrow tables of every type that becomes a stream, and what they should become."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """A column, and the stream that it is."""

    array: Any
    kind: str
    dtype: Any
    item_shape: tuple[int, ...] | None
    records: Any
    metadata: Mapping[str, Any] = MappingProxyType({})


def integers(dtype: Any, count: int) -> Any:
    info = np.iinfo(dtype)
    return np.linspace(info.min, info.max, count).astype(dtype)


def cases(pa: Any, count: int = 23) -> dict[str, Case]:
    """A column of `count` values of each type."""
    rng = np.random.default_rng(0)
    found: dict[str, Case] = {}
    for name in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"):
        values = rng.integers(*bounds(name), count, dtype=name, endpoint=True)
        found[name] = Case(pa.array(values), "dense", name, (), values)
    for name in ("f2", "f4", "f8"):
        values = rng.normal(size=count).astype(name)
        values[:3] = [np.nan, np.inf, -0.0]
        found[name] = Case(pa.array(values, from_pandas=False), "dense", name, (), values)
    bools = rng.random(count) < 0.5
    found["bool"] = Case(pa.array(bools), "dense", "?", (), bools)
    ticks = rng.integers(-(10**9), 10**9, count)
    for unit in ("s", "ms", "us", "ns"):
        stamps, spans = ticks.view(f"M8[{unit}]"), ticks.view(f"m8[{unit}]")
        found[f"timestamp.{unit}"] = Case(pa.array(ticks, pa.timestamp(unit)), "dense", stamps.dtype, (), stamps)
        found[f"duration.{unit}"] = Case(pa.array(ticks, pa.duration(unit)), "dense", spans.dtype, (), spans)
    days = (ticks % 30000).astype(np.int32)
    found["date32"] = Case(pa.array(days, pa.date32()), "dense", "M8[D]", (), days.astype("i8").view("M8[D]"))
    whole = (ticks % 30000) * 86_400_000
    found["date64"] = Case(pa.array(whole, pa.date64()), "dense", "M8[ms]", (), whole.view("M8[ms]"))
    seconds = (ticks % 86400).astype(np.int32)
    found["time32"] = Case(pa.array(seconds, pa.time32("s")), "dense", "m8[s]", (), seconds.astype("i8").view("m8[s]"))
    found["time64"] = Case(
        pa.array(ticks % 86400, pa.time64("us")), "dense", "m8[us]", (), (ticks % 86400).view("m8[us]")
    )
    grid = rng.integers(0, 255, (count, 2, 3), np.uint8)
    inner = pa.FixedSizeListArray.from_arrays(pa.array(grid.reshape(-1)), 3)
    found["grid"] = Case(pa.FixedSizeListArray.from_arrays(inner, 2), "dense", "u1", (2, 3), grid)
    found["tensor"] = Case(pa.FixedShapeTensorArray.from_numpy_ndarray(grid), "dense", "u1", (2, 3), grid)
    bits = rng.random((count, 5)) < 0.5
    found["bits"] = Case(pa.FixedSizeListArray.from_arrays(pa.array(bits.reshape(-1)), 5), "dense", "?", (5,), bits)
    lists = [rng.integers(-99, 99, k % 5).astype(np.int32) for k in range(count)]
    for name in ("list_", "large_list", "list_view", "large_list_view"):
        found[name] = Case(pa.array(lists, getattr(pa, name)(pa.int32())), "ragged", "i4", None, lists)
    flags = [rng.random(k % 4) < 0.5 for k in range(count)]
    found["list.bool"] = Case(pa.array(flags, pa.list_(pa.bool_())), "ragged", "?", None, flags)
    points = [rng.normal(size=(k % 4, 2)) for k in range(count)]
    nested = pa.array([p.tolist() for p in points], pa.list_(pa.list_(pa.float64(), 2)))
    found["list.points"] = Case(nested, "ragged", "f8", None, points)
    words = ["", "a", "été", "日本", "x" * 300] * count
    text = [np.frombuffer(word.encode(), np.uint8) for word in words[:count]]
    for name in ("string", "large_string", "string_view"):
        found[name] = Case(pa.array(words[:count], getattr(pa, name)()), "ragged", "u1", None, text, {"text": "utf-8"})
    encoded = pa.array(words[:count]).dictionary_encode()
    found["dictionary"] = Case(encoded, "ragged", "u1", None, text, {"text": "utf-8"})
    blobs = [bytes(rng.integers(0, 256, k % 7).astype(np.uint8)) + b"\0" for k in range(count)]
    content = [np.frombuffer(blob, np.uint8) for blob in blobs]
    for name in ("binary", "large_binary", "binary_view"):
        found[name] = Case(pa.array(blobs, getattr(pa, name)()), "ragged", "u1", None, content)
    voids = np.frombuffer(rng.bytes(count * 4), "V4")
    found["fixed_binary"] = Case(pa.array([v.tobytes() for v in voids], pa.binary(4)), "dense", "V4", (), voids)
    runs = np.repeat(np.arange(count), 3)[:count]
    ends = pa.array([*range(3, count, 3), count], pa.int32())
    found["runs"] = Case(
        pa.RunEndEncodedArray.from_arrays(ends, pa.array(np.arange(len(ends)))), "dense", "i8", (), runs
    )
    return found


def bounds(dtype: str) -> tuple[int, int]:
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def table(pa: Any, count: int = 23, without: tuple[str, ...] = ()) -> tuple[Any, dict[str, Case]]:
    """A table of all cases."""
    columns = {name: case for name, case in cases(pa, count).items() if name not in without}
    return pa.table({name: case.array for name, case in columns.items()}), columns
