"""Parquet files that pyarrow wrote."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from arrow_tables import table
from converting import (
    FIXTURES,
    assert_holds,
    begins_everywhere,
    converted,
    cuts,
    damaged,
    flips,
    needed,
    read_all,
    resumes_everywhere,
    says_where,
    selects,
    small_parts,
    stored,
    texts,
    writes_nothing,
)
from loaderx.converters import convert
from support import all_same

pa = needed("pyarrow")
pq = needed("pyarrow.parquet")
NOT_IN_PARQUET = ("runs", "list_view", "large_list_view", "string_view", "binary_view")
FEW = ["i4", "list_", "string", "grid"]


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip"])
@pytest.mark.parametrize("dictionary", [False, True])
def test_every_type(memory: Path, compression: str, dictionary: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, wanted = table(pa, without=NOT_IN_PARQUET)
    path = memory / "in.parquet"
    pq.write_table(whole, path, row_group_size=7, compression=compression, use_dictionary=dictionary)
    # Parquet has no seconds, and days only as such: pyarrow writes these, and says so when it reads.
    units = {"timestamp.s": "M8[ms]", "time32": "m8[ms]", "date64": "M8[D]"}
    for size in (8 << 20, 50):
        small_parts(monkeypatch, size)
        found = read_all(path)
        assert sorted(found) == sorted(wanted)
        for name, case in wanted.items():
            records = np.asarray(case.records).astype(units[name]) if name in units else case.records
            assert all_same(
                found[name], [np.asarray(one, records.dtype if name in units else case.dtype) for one in records]
            ), name


def test_resuming(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = table(pa, 40)
    (memory / "in").mkdir()
    pq.write_table(whole.select(FEW).slice(0, 25), memory / "in/part-2.parquet", row_group_size=10)
    pq.write_table(whole.select(FEW).slice(25), memory / "in/part-10.parquet", row_group_size=10)
    assert resumes_everywhere(memory / "in", memory) == 5
    begins_everywhere(memory / "in")
    small_parts(monkeypatch, 30)
    assert resumes_everywhere(memory / "in", memory, most=5) > 10
    begins_everywhere(memory / "in")
    streams = converted(memory / "in", memory / "out")
    assert texts(streams["string"]) == whole["string"].to_pylist()
    selects(memory / "in", memory)


def test_only_wanted_columns_are_read(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), memory / "in.parquet")
    asked: list[list[str]] = []
    read = pq.ParquetFile.read_row_group

    def noted(self: object, number: int, columns: list[str], **options: object) -> object:
        asked.append(columns)
        return read(self, number, columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)
    convert(memory / "in.parquet", memory / "out", streams={"c": "b"})
    assert asked == [["b"]]


def test_nulls(memory: Path) -> None:
    path = memory / "in.parquet"
    pq.write_table(pa.table({"a": pa.array([1, 2, 3, None, 5], pa.int16())}), path, row_group_size=2)
    with pytest.raises(ValueError, match=r"in\.parquet: row group 1: column 'a', record 3: a null"):
        convert(path, memory / "out")
    streams = converted(path, memory / "masked", nulls="mask")
    assert_holds(streams["a"], np.array([1, 2, 3, 0, 5], np.int16))
    assert_holds(streams["a.valid"], np.array([True, True, True, False, True]))


def test_partitions(memory: Path) -> None:
    pads = needed("pyarrow.dataset")
    whole = pa.table({"x": [1, 2, 3], "year": [2020, 2020, 2021]})
    pq.write_to_dataset(whole, memory / "in", partition_cols=["year"])
    with pytest.raises(ValueError, match="the name of the directory 'year=2020' has values of a column"):
        convert(memory / "in", memory / "out")
    dataset = pads.dataset(memory / "in", partitioning="hive")
    streams = converted(dataset, memory / "out")
    assert_holds(streams["year"], np.array([2020, 2020, 2021], np.int32))
    begins_everywhere(dataset)
    files = sorted((memory / "in").rglob("*.parquet"))
    assert_holds(converted(files, memory / "listed")["x"], np.array([1, 2, 3]))
    assert_holds(converted(memory / "in/year=2020", memory / "one")["x"], np.array([1, 2]))
    files[1].unlink()
    with pytest.raises(ValueError, match="'year=2020'"):  # also where there is but one
        convert(memory / "in", memory / "out2")


def test_spark_leaves_files_beside(memory: Path) -> None:
    (memory / "in").mkdir()
    pq.write_table(pa.table({"x": [1]}), memory / "in/part-0.parquet")
    (memory / "in/_SUCCESS").touch()
    (memory / "in/.part-0.parquet.crc").write_bytes(b"crc")
    pq.write_table(pa.table({"x": [9]}), memory / "in/_metadata.parquet")
    assert_holds(converted(memory / "in", memory / "out")["x"], np.array([1]))


def test_a_dry_run(memory: Path) -> None:
    pq.write_table(pa.table({"x": [1.5]}), memory / "in.parquet")
    assert writes_nothing(memory / "in.parquet", memory) == (
        f"Apache Parquet, {memory}/in.parquet: 1 records\n"
        f"  {memory}/nothing/x: dense () '<f8', zstd, from column 'x': double"
    )


def test_files_of_other_packages(memory: Path) -> None:
    import os

    pandas = needed("pandas") if os.environ.get("LOADERX_REQUIRE_CONVERTERS") != "1" else pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1.5, None], "c": pandas.Categorical(["b", "a"]), "s": ["u", "v"]})
    frame.to_parquet(memory / "in.parquet")
    streams = converted(memory / "in.parquet", memory / "out", nulls="nan")
    assert_holds(streams["x"], np.array([1.5, np.nan]))
    assert (texts(streams["c"]), texts(streams["s"])) == (["b", "a"], ["u", "v"])


def test_damage(memory: Path) -> None:
    """Whatever is changed in a file, it is an error that names the file, or other values: never a crash or another error."""
    whole, _ = table(pa)
    path = memory / "in.parquet"
    pq.write_table(whole.select(FEW), path, row_group_size=12, write_page_checksum=True)
    content = path.read_bytes()
    caught = 0
    for name in damaged(path, [*cuts(content, 50), *flips(content, 300)]):
        caught += says_where(path, name)
    assert caught > 100


def test_a_file_in_the_repository(memory: Path) -> None:
    streams = converted(FIXTURES / "parquet" / "pyarrow.parquet", memory / "out")
    assert_holds(streams["number"], np.arange(20))
    assert_holds(streams["tokens"], [range(i % 4) for i in range(20)], np.int64)
    assert texts(streams["text"]) == [f"text {i}" for i in range(20)]


PEAK = """
import sys
import pyarrow as pa
from loaderx.converters import convert
convert(sys.argv[1], sys.argv[2], codec="raw", workers=1)
print(pa.default_memory_pool().max_memory() >> 20)
"""


@pytest.mark.parametrize("name", ["a", "a.b"])
def test_a_large_row_group_is_not_read_at_once(tmp_path: Path, name: str) -> None:
    values = np.random.default_rng(0).integers(0, 1 << 60, 12 << 20)  # 96 MiB, which nothing makes smaller
    pq.write_table(pa.table({name: values}), tmp_path / "in.parquet", row_group_size=len(values), use_dictionary=False)
    arguments = [sys.executable, "-c", PEAK, str(tmp_path / "in.parquet"), str(tmp_path / "out")]
    peak = int(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)
    assert peak < 48
    assert np.array_equal(stored(tmp_path / "out")[name].records, values)


def test_a_repository_of_the_hub(memory: Path) -> None:
    (memory / "in/data").mkdir(parents=True)
    for value, name in enumerate(["test-00000-of-00001", "train-00000-of-00002", "train-00001-of-00002"]):
        pq.write_table(pa.table({"x": [value]}), memory / f"in/data/{name}.parquet")
    for place in (memory / "in", memory / "in/data"):
        with pytest.raises(ValueError, match=r"expected files of one split, found those of test \(1, .*, train \(2, "):
            convert(place, memory / "out", format="parquet")
    files = sorted((memory / "in/data").glob("train-*"))
    assert_holds(converted(files, memory / "out")["x"], np.array([1, 2]))
