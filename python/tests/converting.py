"""What the tests of converters share. Where a package is missing its tests are skipped, but in `make test-converters` they fail."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from loaderx.converters import Conversion, convert
from loaderx.converters.blocks import checked_length
from loaderx.converters.encoding import chosen
from loaderx.converters.finding import found, opened
from loaderx.converters.source import ITSELF, Block, Source, refused_by
from loaderx.dataset import DenseDataset, MSDataset, Packed, RaggedDataset
from loaderx.dataset import schema as schemas
from loaderx.dataset.streams import KINDS
from loaderx.zrecord import ZrecordError
from support import Array, all_same, same

FIXTURES = Path(__file__).parent / "fixtures" / "convert"
"""A directory for each format, of files that the other library wrote."""


def needed(name: str) -> Any:
    """The module of that name; the calling test module is skipped where it is not installed."""
    if os.environ.get("LOADERX_REQUIRE_CONVERTERS") == "1":
        return importlib.import_module(name)
    return pytest.importorskip(name, reason=f"{name} is not installed (make test-converters)")


class Stored(NamedTuple):
    """All that a stream holds."""

    kind: str
    dtype: np.dtype[Any]
    item_shape: tuple[int, ...] | None
    metadata: dict[str, Any]
    records: Sequence[Array]
    """One array of a dense stream, a list of a ragged one."""


def stored(path: Path) -> dict[str, Stored]:
    """The streams of a store (its name is empty) or of a directory of streams."""
    if (path / schemas.FILE).is_file():
        with KINDS[schemas.read(path).kind](path, read_only=True) as ds:
            return {ITSELF: content(ds)}
    with MSDataset(path, read_only=True) as streams:
        return {name: content(ds) for name, ds in streams.streams.items()}


def content(ds: DenseDataset | RaggedDataset) -> Stored:
    shape = ds.item_shape if isinstance(ds, DenseDataset) else None
    return Stored(ds.kind, ds.dtype, shape, dict(ds.metadata), ds[:])


def converted(src: Any, dst: Path, **options: Any) -> dict[str, Stored]:
    """What `convert` wrote, after all checks of its own."""
    done = convert(src, dst, check=True, **options)
    streams = stored(dst)
    assert {len(stream.records) for stream in streams.values()} == {done.records}
    assert sorted(streams) == sorted(spec.name for spec in done.streams)
    assert not (dst.parent / f".{dst.name}.converting").exists()
    return streams


def assert_holds(stream: Stored, records: Any, dtype: Any = None) -> None:
    """A dense stream holds an array to the bit, a ragged one a list of arrays."""
    if dtype is not None:
        assert stream.dtype == np.dtype(dtype), (stream.dtype, dtype)
    if stream.kind == "dense":
        assert same(stream.records, records), (stream.records, records)
    else:
        want = [np.asarray(record, stream.dtype) for record in records]
        assert all_same(stream.records, want), (stream.records, want)


def texts(stream: Stored) -> list[str]:
    """The records of a stream of text."""
    assert stream.metadata.get("text") == "utf-8"
    return [record.tobytes().decode() for record in stream.records]


def assert_same_stores(one: Path, other: Path) -> None:
    """Two conversions have written the same streams, to the bit."""
    first, second = stored(one), stored(other)
    assert list(first) == list(second)
    for name, a in first.items():
        b = second[name]
        assert a[:4] == b[:4], name
        assert all_same(list(a.records), list(b.records)), name


class CutError(Exception):
    """What a test cuts a conversion with."""


def cut_after(blocks: int) -> Callable[[int, int | None], None]:
    """A progress callback that fails once so many blocks of this call are written (0: before the first)."""
    calls = iter(range(blocks))

    def progress(done: int, total: int | None) -> None:
        if next(calls, None) is None:
            raise CutError

    return progress


def resumes_everywhere(src: Any, directory: Path, most: int = 12, **options: Any) -> int:
    """A conversion that was cut after any of its blocks goes on, and ends as one that was not.

    At most `most` places are tried, among them the first and the last. Returns the number of blocks; make parts small to have several.
    """
    whole, broken = directory / "whole", directory / "broken"
    ends: list[int] = []
    convert(src, whole, progress=lambda done, total: ends.append(done), **options)
    blocks = len(ends) - 1
    for place in spread(range(blocks + 1), most):
        with pytest.raises(CutError):
            convert(src, broken, progress=cut_after(place), **options)
        assert not broken.exists()
        planned = convert(src, broken, dry_run=True, **options)
        done = convert(src, broken, **options)
        assert (done.resumed, done.records) == (ends[place], ends[-1])
        assert planned.resumed == done.resumed
        assert_same_stores(whole, broken)
        remove(broken)
    remove(whole)
    return blocks


def goes_on_with_itself_alone(make: Callable[[int], Any], directory: Path, **options: Any) -> None:
    """A conversion of `make(0)` that was cut goes on with another `make(0)`, and not with `make(1)`, which is as long."""
    convert(make(0), directory / "whole", **options)
    cut_early(make(0), directory / "broken", **options)
    assert convert(make(1), directory / "broken", dry_run=True, **options).resumed == 0
    with pytest.raises(ValueError, match=r"restart=True begins anew.*source: was"):
        convert(make(1), directory / "broken", **options)
    assert convert(make(0), directory / "broken", dry_run=True, **options).resumed > 0
    assert convert(make(0), directory / "broken", **options).resumed > 0
    assert_same_stores(directory / "whole", directory / "broken")
    remove(directory / "whole")
    remove(directory / "broken")


def never_goes_on(make: Callable[[int], Any], directory: Path, **options: Any) -> None:
    """A conversion of `make(0)` that was cut goes on with nothing: not with `make(1)`, and not with `make(0)`."""
    convert(make(1), directory / "whole", **options)
    written = cut_early(make(0), directory / "broken", **options)
    for which in (0, 1):
        assert convert(make(which), directory / "broken", dry_run=True, **options).resumed == 0
        with pytest.raises(
            ValueError, match=rf"here are {written} records .* It can't go on.*restart=True begins anew"
        ):
            convert(make(which), directory / "broken", **options)
    assert convert(make(1), directory / "broken", restart=True, **options).resumed == 0
    assert_same_stores(directory / "whole", directory / "broken")
    remove(directory / "whole")
    remove(directory / "broken")


def cut_early(src: Any, path: Path, **options: Any) -> int:
    """Cut a conversion once it has written some of the records; how many."""
    ends: list[int] = []

    def progress(done: int, total: int | None) -> None:
        ends.append(done)
        if len(ends) == 3:
            raise CutError

    with pytest.raises(CutError):
        convert(src, path, progress=progress, **options)
    return ends[-1]


def begins_everywhere(src: Any, most: int = 40, format: str | None = None, **options: Any) -> None:  # noqa: A002
    """What `parts` gives from any record on, of all streams and of each alone, is the end of what it gives from the first on."""
    with source_of(src, format, **options) as source:
        names = [spec.name for spec in source.streams]
        whole = records_from(source, 0, names)
        count = len(next(iter(whole.values())))
        assert source.records in (None, count)
        for start in spread(range(count + 1), most):
            rest = records_from(source, start, names)
            for name in names:
                assert all_same(rest[name], whole[name][start:]), (start, name)
        for name in names if len(names) > 1 else ():
            only = records_from(source, count // 2, [name])
            assert list(only) == [name]
            assert all_same(only[name], whole[name][count // 2 :]), name


@contextmanager
def source_of(src: Any, form: str | None = None, **options: Any) -> Iterator[Source]:
    """What `convert` would read."""
    with closing(opened(*found(src, form), options)) as source:
        yield source


def records_from(source: Source, start: int, names: Sequence[str]) -> dict[str, list[Array]]:
    """All records from `start` on. Every block must hold just what was asked for."""
    records: dict[str, list[Array]] = {name: [] for name in names}
    for part in source.parts(start, names):
        block = part()
        assert sorted(block) == sorted(names)
        checked_length(block)
        for name, values in listed(block).items():
            records[name] += values
    return records


def listed(block: Block) -> dict[str, list[Array]]:
    """Each stream's records one by one, without a step that the product has too."""
    return {
        name: unpacked(values) if isinstance(values, Packed) else separate(values) for name, values in block.items()
    }


def read_all(src: Any, **options: Any) -> dict[str, list[Array]]:
    """What a conversion would write, without writing it."""
    with source_of(src, **options) as source:
        return records_from(source, 0, list(chosen(source.streams, None, refused_by(source)).sources))


def says_where(path: Path, damage: str, **options: Any) -> bool:
    """Whether a damaged file is an error, which then must be one that names the file; it may also be read as other values."""
    try:
        read_all(path, **options)
    except (ValueError, ZrecordError, OSError) as error:
        said = str(error)
        if not (type(error) is ValueError or isinstance(error, (ZrecordError, OSError))) or str(path) not in said:
            raise AssertionError(f"{damage}: {type(error).__name__}: {said}") from error
        return True
    return False


def separate(values: Array | list[Array]) -> list[Array]:
    """Records as arrays of their own; a scalar of NumPy would lose its byte order, and what lies between fields."""
    if isinstance(values, list):
        return values
    return [values[at : at + 1].reshape(values.shape[1:]) for at in range(len(values))]


def unpacked(packed: Packed) -> list[Array]:
    assert packed.offsets.dtype == np.int64
    assert packed.offsets[0] == 0
    assert packed.offsets[-1] == len(packed.values)
    shapes = packed.shapes or [(-1,)] * (len(packed.offsets) - 1)
    return [packed.values[packed.offsets[i] : packed.offsets[i + 1]].reshape(shape) for i, shape in enumerate(shapes)]


def writes_nothing(src: Any, directory: Path, **options: Any) -> str:
    """A dry run leaves no trace; what it says."""
    before = sorted(directory.rglob("*"))
    said = convert(src, directory / "nothing", dry_run=True, **options)
    assert sorted(directory.rglob("*")) == before
    assert isinstance(said, Conversion)
    return str(said)


def selects(src: Any, directory: Path, **options: Any) -> None:
    """Every stream alone, and all under other names, hold what they hold together."""
    whole = converted(src, directory / "whole", **options)
    for at, (name, stream) in enumerate(whole.items()):
        alone = converted(src, directory / f"alone{at}", streams=[name], **options)
        assert list(alone) == [name]
        assert all_same(list(alone[name].records), list(stream.records))
    names = {f"new{at}": name for at, name in enumerate(reversed(list(whole)))}
    renamed = converted(src, directory / "renamed", streams=names, **options)
    for new, old in names.items():
        assert all_same(list(renamed[new].records), list(whole[old].records))


def small_parts(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Let parts hold about `size` bytes, in all formats that go by PART_BYTES."""
    for name, module in list(sys.modules.items()):
        if name.startswith("loaderx.converters") and hasattr(module, "PART_BYTES"):
            monkeypatch.setattr(module, "PART_BYTES", size)


def damaged(file: Path, damage: Iterable[tuple[str, bytes]]) -> Iterator[str]:
    """The file with each damage in turn: its name, while the file has it. In the end the file is whole again."""
    whole = file.read_bytes()
    try:
        for name, content in damage:
            file.write_bytes(content)
            yield name
    finally:
        file.write_bytes(whole)


def cuts(content: bytes, most: int = 40) -> Iterator[tuple[str, bytes]]:
    """A file cut at many places."""
    for length in spread(range(len(content)), most):
        yield f"cut to {length}", content[:length]


def flips(content: bytes, most: int = 60, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """A file with a byte changed, at many places."""
    rng = np.random.default_rng(seed)
    for at in spread(range(len(content)), most):
        wrong = bytearray(content)
        wrong[at] ^= int(rng.integers(1, 256))
        yield f"byte {at} changed", bytes(wrong)


def spread(values: Sequence[int], most: int) -> list[int]:
    """At most so many of the values, evenly, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    return [values[at] for at in np.unique(np.linspace(0, len(values) - 1, most).astype(int))]


def remove(path: Path) -> None:
    """Remove what a conversion wrote."""
    for child in sorted(path.rglob("*"), reverse=True):
        if child.is_dir():
            child.rmdir()
        else:
            child.unlink()
    path.rmdir()
