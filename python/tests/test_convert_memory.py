"""Objects of pyarrow: what they are known by when a conversion of them was cut, and how much of a dataset is read at a time."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arrow_tables import cases, table
from converting import (
    CutError,
    assert_holds,
    converted,
    cut_after,
    cut_early,
    goes_on_with_itself_alone,
    needed,
    never_goes_on,
    small_parts,
    stored,
)
from hypothesis import given
from hypothesis import strategies as st
from loaderx.converters import convert
from loaderx.converters.arrow import scanning
from loaderx.converters.arrow.identity import of_dataset, of_table
from loaderx.converters.formats.arrow import READ

pa = needed("pyarrow")
pads = needed("pyarrow.dataset")
feather = needed("pyarrow.feather")
parquet = needed("pyarrow.parquet")
ROWS = 400


def numbers(which: int = 0, rows: int = ROWS) -> Any:
    """A table; each `which` is another one, of the same schema and length."""
    number = np.arange(rows) + 1000 * which
    return pa.table({"x": number, "s": [f"text {one}" for one in number]})


def batches(which: int = 0) -> Any:
    whole = numbers(which)
    return pa.RecordBatchReader.from_batches(whole.schema, whole.to_batches(max_chunksize=50))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch, 1000)


def test_tables_and_batches(memory: Path) -> None:
    goes_on_with_itself_alone(numbers, memory)
    goes_on_with_itself_alone(lambda which: numbers(which).combine_chunks().to_batches()[0], memory)
    # Parts of one table, which lie in the same buffers.
    goes_on_with_itself_alone(lambda which: numbers(rows=2 * ROWS).slice(ROWS * which, ROWS), memory)


def test_a_value_that_another_table_has_at_the_end(memory: Path) -> None:
    def made(which: int) -> Any:
        number = np.arange(ROWS)
        number[-1] += which
        return pa.table({"x": number})

    goes_on_with_itself_alone(made, memory)


def test_readers(memory: Path) -> None:
    never_goes_on(batches, memory)


@pytest.mark.parametrize("cut", [0, 2])
@pytest.mark.parametrize("restart", [False, True])
def test_what_is_left_of_a_reader(memory: Path, cut: int, restart: bool) -> None:
    """Also where nothing was written: what was read ahead is gone."""
    reader = batches()
    with pytest.raises(CutError):
        convert(reader, memory / "out", progress=cut_after(cut))
    if cut == 0:
        next(iter(reader))  # nothing was read yet
        assert convert(reader, memory / "out").records == ROWS - 50
        return
    with pytest.raises(ValueError, match="make the reader anew" if restart else "It can't go on"):
        convert(reader, memory / "out", restart=restart)
    assert not (memory / "out").exists()
    assert_holds(converted_once(batches(), memory / "other")["x"], np.arange(ROWS))


def converted_once(reader: Any, path: Path) -> Any:
    convert(reader, path)
    return stored(path)


def test_a_reader_is_not_read_for_a_conversion_that_is_refused(memory: Path) -> None:
    reader = batches()
    with pytest.raises(ValueError, match="check=True reads the source twice, and this RecordBatchReader gives"):
        convert(reader, memory / "out", check=True)
    (memory / "out").mkdir()
    with pytest.raises(FileExistsError):
        convert(reader, memory / "out")
    convert(reader, memory / "new", dry_run=True)
    assert convert(reader, memory / "new").records == ROWS
    assert reader in READ


def datasets(memory: Path) -> Any:
    """A directory of files for each number."""

    def made(which: int) -> Any:
        directory = memory / f"in{which}"
        if not directory.exists():
            directory.mkdir()
            for at in range(2):
                part = numbers(which).slice(at * ROWS // 2, ROWS // 2)
                parquet.write_table(part, directory / f"{at}.parquet", row_group_size=40)
        return pads.dataset(directory)

    return made


def test_datasets_of_files(memory: Path) -> None:
    made = datasets(memory)
    goes_on_with_itself_alone(made, memory)
    goes_on_with_itself_alone(lambda which: pads.dataset([made(which)]), memory)
    cut_early(made(0), memory / "out")
    files = sorted((memory / "in0").iterdir())
    parquet.write_table(numbers(5, ROWS // 2), files[1], row_group_size=40)
    with pytest.raises(ValueError, match="source: was"):
        convert(made(0), memory / "out")


def test_datasets_of_which_nothing_is_known(memory: Path) -> None:
    made = datasets(memory)
    never_goes_on(lambda which: pads.dataset(numbers(which)), memory)
    never_goes_on(
        lambda which: made(0).filter(pads.field("x") >= ROWS // 2 if which else pads.field("x") < ROWS // 2), memory
    )
    never_goes_on(lambda which: pads.dataset([made(0), pads.dataset(numbers(which))]), memory)


def test_a_dataset_that_changes_meanwhile(memory: Path) -> None:
    made, file = datasets(memory), memory / "in0/0.parquet"

    def touch(done: int, total: int | None) -> None:
        content = file.read_bytes()
        (memory / "in0/new").write_bytes(content)
        (memory / "in0/new").rename(file)

    with pytest.raises(RuntimeError, match="the source was changed while it was converted"):
        convert(made(0), memory / "out", progress=touch)


def test_how_a_dataset_is_read_is_part_of_it(memory: Path) -> None:
    (memory / "a.csv").write_text("x\n1\nno\n3\n")
    (memory / "year=2/b.csv").parent.mkdir()
    (memory / "year=2/b.csv").write_text("x\n1\n")
    from pyarrow import csv

    def form(**options: Any) -> Any:
        return pads.CsvFileFormat(default_fragment_scan_options=pads.CsvFragmentScanOptions(**options))

    without = csv.ConvertOptions(null_values=["no"], column_types={"x": pa.int64()})
    other = csv.ConvertOptions(null_values=["no", "1"], column_types={"x": pa.int64()})
    said = [
        of_dataset(
            pads.dataset(memory / "a.csv", format=form(convert_options=options), schema=pa.schema({"x": pa.int64()}))
        )
        for options in (without, other)
    ]
    parts = [of_dataset(pads.dataset(memory / "year=2", format="csv", partitioning=how)) for how in (None, "hive")]
    whole = [
        of_dataset(
            pads.dataset(memory / "year=2/b.csv", format="csv", partition_base_dir=str(memory), partitioning=how)
        )
        for how in (None, "hive")
    ]
    assert None not in [*said, *parts, *whole]
    assert len(set(said)) == 2
    assert len(set(whole)) == 2
    parquet.write_table(numbers(), memory / "c.parquet", row_group_size=100)
    dataset = pads.dataset(memory / "c.parquet")
    (fragment,) = dataset.get_fragments()
    groups = [
        pads.FileSystemDataset(
            [fragment.subset(row_group_ids=[at])], dataset.schema, dataset.format, dataset.filesystem
        )
        for at in range(4)
    ]
    assert len({of_dataset(one) for one in [dataset, *groups]} - {None}) == 5


CASES = cases(pa, 24)


@given(data=st.data())
def test_checksums_are_of_what_a_slice_holds(data: st.DataObject) -> None:
    """Tables of other records have other checksums, wherever they lie in their buffers; one that is made anew has the same."""
    name = data.draw(st.sampled_from(sorted(CASES)))
    case, again = CASES[name], cases(pa, 24)[name]
    starts = st.integers(0, 12)
    length, one, other = data.draw(st.integers(1, 12)), data.draw(starts), data.draw(starts)
    first = of_table(pa.table({"x": case.array}).slice(one, length))
    assert first is not None
    assert first == of_table(pa.table({"x": again.array}).slice(one, length))
    content = [np.asarray(record, case.dtype).tobytes() for record in case.records]
    if content[one : one + length] != content[other : other + length]:
        assert first != of_table(pa.table({"x": case.array}).slice(other, length))


def test_nulls_names_and_types_are_part_of_a_checksum() -> None:
    columns = [
        {"x": pa.array([1, 2, 3])},
        {"x": pa.array([1, None, 3])},
        {"x": pa.array([1, 2, None])},
        {"x": pa.array([1, 2, 3], pa.int32())},
        {"y": pa.array([1, 2, 3])},
        {"x": pa.array(["ab", "c"])},
        {"x": pa.array(["a", "bc"])},
        {"x": pa.array(["a", "b"]).dictionary_encode()},
        {"x": pa.array(["a", "c"]).dictionary_encode()},
    ]
    assert len({of_table(pa.table(one)) for one in columns} - {None}) == len(columns)


def test_slices_of_views_that_would_be_read_again_and_again() -> None:
    views = pa.table({"x": pa.array([f"a text of some length, number {at}" for at in range(20_000)], pa.string_view())})
    assert of_table(views) is not None
    assert of_table(pa.concat_tables([views.slice(at, 10) for at in range(0, 20_000, 10)])) is None


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_width_of_a_type(name: str) -> None:
    array = CASES[name].array
    width = scanning.width_of(array.type)
    assert width is None or width == 8 * array.nbytes / len(array) or array.type == pa.bool_()
    if CASES[name].kind == "ragged":
        assert width is None


@pytest.mark.parametrize("size", [0, 10, 5000])
def test_batches_of_a_dataset_are_about_a_part(memory: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the length of a record, and however the files are cut."""
    small_parts(monkeypatch, 20_000)
    whole = pa.table({"x": np.arange(600), "b": [bytes([at % 256]) * size for at in range(600)]})
    for at, start in enumerate((0, 500, 510)):
        stop = (500, 510, 600)[at]
        feather.write_feather(whole.slice(start, stop - start), memory / f"{at}.feather", chunksize=250)
    dataset = pads.dataset(memory, format="feather")
    scans: list[dict[str, Any]] = []

    class Spied:
        schema = dataset.schema

        def scanner(self, **options: Any) -> Any:
            scans.append(options)
            return dataset.scanner(**options)

    found = list(scanning.batches_of(Spied(), ["x", "b"]))
    assert pa.concat_tables(found).equals(whole)
    assert all(one.nbytes <= 20_000 for one in found)
    # None is small but where the next one would be too many.
    assert all(one.nbytes + other.nbytes > 20_000 for one, other in itertools.pairwise(found))
    assert not any(scan["use_threads"] for scan in scans)
    assert max(scan["batch_size"] for scan in scans) * size <= max(20_000, size * scanning.SAMPLE)


def test_rows_that_become_longer_than_the_first(memory: Path) -> None:
    sizes = [1] * 3000 + [3000] * 3000
    feather.write_feather(pa.table({"b": [bytes(size) for size in sizes]}), memory / "a.feather", chunksize=6000)
    found = list(scanning.batches_of(pads.dataset(memory, format="feather"), ["b"]))
    assert sum(one.num_rows for one in found) == 6000
    assert max(one.nbytes for one in found) <= scanning.MOST_VARYING * 3010


@pytest.mark.parametrize("form", ["parquet", "feather"])
def test_memory_of_a_dataset(memory: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 64 MB in files of 16 MB, each of row groups or batches of 1 MB."""
    small_parts(monkeypatch, 1 << 20)
    rows = pa.table({"b": pa.array([bytes([at]) * 100_000 for at in range(160)], pa.binary())})
    for at in range(4):
        if form == "parquet":
            parquet.write_table(
                rows, memory / f"{at}.parquet", row_group_size=10, use_dictionary=False, compression="none"
            )
        else:
            feather.write_feather(rows, memory / f"{at}.feather", chunksize=10, compression="uncompressed")
    del rows
    before, most = pa.total_allocated_bytes(), 0
    for one in scanning.batches_of(pads.dataset(memory, format=form), ["b"]):
        assert one.nbytes <= 1 << 20
        time.sleep(0.01)  # a slow reader: what is read ahead piles up
        most = max(most, pa.total_allocated_bytes() - before)
    # Of a file of batches Arrow reads up to some 16 MB ahead, with threads of its own for files.
    assert most < (14 << 20 if form == "parquet" else 32 << 20)


def test_every_type_of_a_dataset(memory: Path) -> None:
    whole, wanted = table(pa, without=("runs", "list_view", "large_list_view"))
    streams = converted(pads.dataset(whole), memory / "out")
    for name, case in wanted.items():
        assert_holds(streams[name], case.records, case.dtype)


def test_a_dataset_without_rows(memory: Path) -> None:
    assert_holds(converted(pads.dataset(numbers().slice(0, 0)), memory / "out")["x"], np.arange(0))
