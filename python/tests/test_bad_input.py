"""Bad input is refused by name, and whatever is refused has changed nothing on disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from loaderx.utils import from_iterator, from_numpy
from loaderx.zrecord import UnsupportedCodecError, Zrecord, ZrecordError
from support import Array, images, run_python, same, unchanged

DENSE_APPENDS: list[tuple[Any, type[Exception], str]] = [
    (np.zeros((2, 2, 3)), ValueError, "append: expected dtype '<f4', found '<f8'"),
    (np.zeros((2, 2, 3), np.int32), ValueError, "append: expected dtype '<f4', found '<i4'"),
    (np.zeros((2, 3, 2), np.float32), ValueError, r"append: expected shape \(batch, 2, 3\), found \(2, 3, 2\)"),
    (np.zeros((2, 2), np.float32), ValueError, r"expected shape \(batch, 2, 3\), found \(2, 2\)"),
    (np.zeros((2, 3), np.float32), ValueError, r"found \(2, 3\); one record is record\[None\]"),
    (np.zeros((1, 2, 2, 3), np.float32), ValueError, r"found \(1, 2, 2, 3\)"),
    (np.float32(1), ValueError, r"found \(\)"),
    (np.zeros((0, 2, 3), np.float32), ValueError, r"expected at least one record, found shape \(0, 2, 3\)"),
    ([], ValueError, "append: expected dtype '<f4'"),
    ([[1.0, 2.0], [3.0]], ValueError, "append: not an array of one shape"),
    (np.full((2, 2, 3), "a", object), TypeError, "uint8 records.*S16 or U16"),
    (None, TypeError, "uint8 records.*S16 or U16"),
    (np.full((2, 2, 3), "a"), ValueError, "expected dtype '<f4', found '<U1'"),
    (b"bytes", ValueError, "expected dtype '<f4', found '|S5'"),
    (np.zeros((2, 2, 3), [("a", "<f4")]), ValueError, r"expected dtype .<f4., found \[\(.a., .<f4.\)\]"),
    (np.ma.zeros((2, 2, 3), np.float32), TypeError, "masked array"),
]


@pytest.mark.parametrize(("records", "error", "text"), DENSE_APPENDS, ids=range(len(DENSE_APPENDS)))
def test_dense_appends(dense: DenseDataset, records: Any, error: type[Exception], text: str) -> None:
    with unchanged(dense.path):
        with pytest.raises(error, match=text):
            dense.append(records)
        assert len(dense) == 20


RAGGED_APPENDS: list[tuple[Any, type[Exception], str]] = [
    ([np.zeros(2)], ValueError, "append: record 0: expected dtype '<i4', found '<f8'"),
    ([np.zeros(2, np.int32), [1, 2]], ValueError, "append: record 1: expected dtype '<i4', found '<i8'"),
    ([b"abcd"], ValueError, "append: record 0: bytes are records of dtype"),
    ([], ValueError, "append: expected at least one record, found none"),
    (np.zeros((2, 2), np.int32), TypeError, r"expected a list of records, found one ndarray; .*\[record\]"),
    (b"abcd", TypeError, "expected a list of records, found one bytes"),
    ("abcd", TypeError, "expected a list of records, found one str"),
    ({"a": np.zeros(2, np.int32)}, TypeError, "expected a list of records, found one dict"),
    (5, TypeError, "append: expected a list of records, found one int"),
    ([np.zeros((1,) * 8, np.int32)], ValueError, "append: record 0: expected at most 7 dimensions"),
    ([np.zeros((0, 2**33), np.int32)], ValueError, "append: record 0: expected dimensions of at most 4294967295"),
    ([np.zeros(1, np.int32), None], TypeError, "append: record 1: .*uint8 records.*S16 or U16"),
    ([[1, [2]]], ValueError, "append: record 0: not an array of one shape"),
    (
        [np.broadcast_to(np.int32(0), 2**29 + 1)],
        ValueError,
        f"record 0: expected at most {2**31} bytes, found {2**31 + 4}",
    ),
]


@pytest.mark.parametrize(("container", "error", "text"), RAGGED_APPENDS, ids=range(len(RAGGED_APPENDS)))
def test_ragged_appends(ragged: RaggedDataset, container: Any, error: type[Exception], text: str) -> None:
    with unchanged(ragged.path):
        with pytest.raises(error, match=text):
            ragged.append(container)
        assert len(ragged) == 9


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 1 has no variable-width strings")
def test_variable_width_strings(dense: DenseDataset, ragged: RaggedDataset) -> None:
    text = np.array(["a", "bc"], np.dtypes.StringDType())
    with unchanged(dense.path.parent):
        with pytest.raises(TypeError, match="uint8 records.*S16 or U16"):
            dense.append(text)
        with pytest.raises(TypeError, match="uint8 records.*S16 or U16"):
            ragged.append([text])


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (20, IndexError),
        (-21, IndexError),
        ([0, 20], IndexError),
        (1.0, TypeError),
        ([0.5], TypeError),
        (True, TypeError),
        (np.ones(19, bool), IndexError),
    ],
)
def test_indices(dense: DenseDataset, index: Any, error: type[Exception]) -> None:
    with unchanged(dense.path):
        for use in (dense.__getitem__, dense.__getitems__, dense.lengths, dense.delete):
            with pytest.raises(error):
                use(index)
        assert len(dense) == 20


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"dtype": "<f8"}, "expected dtype '<f8', found a store of '<f4'"),
        ({"dtype": ">f4"}, "expected dtype '>f4', found a store of '<f4'"),
        ({"item_shape": (3, 2)}, r"expected item_shape \(3, 2\), found a store of \(2, 3\)"),
        ({"codec": "raw"}, "raw.*zstd|zstd.*raw"),
        ({"level": 9}, "level is fixed when a store is created: expected 9, found 3"),
    ],
)
def test_arguments_that_contradict_the_store(dense: DenseDataset, arguments: dict[str, Any], text: str) -> None:
    with unchanged(dense.path), pytest.raises(ValueError, match=text):
        DenseDataset(dense.path, **arguments)


def test_the_other_kind(dense: DenseDataset, ragged: RaggedDataset) -> None:
    with unchanged(dense.path.parent):
        with pytest.raises(ValueError, match="expected a ragged store, found a dense one; open it with DenseDataset"):
            RaggedDataset(dense.path)
        with pytest.raises(ValueError, match="expected a dense store, found a ragged one; open it with RaggedDataset"):
            DenseDataset(ragged.path)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"dtype": object}, TypeError),
        ({"dtype": str}, TypeError),
        ({"dtype": "nonsense"}, TypeError),
        ({"item_shape": 3}, TypeError),
        ({"item_shape": "33"}, TypeError),
        ({"item_shape": (2.0,)}, TypeError),
        ({"item_shape": (-1,)}, ValueError),
        ({"item_shape": (2**31, 2)}, ValueError),
        ({"item_shape": (1,) * 32}, ValueError),
        ({"codec": "lz4"}, ValueError),
        ({"codec": 1}, TypeError),
        ({"level": 99}, ValueError),
        ({"codec": "raw", "level": 3}, ValueError),
        ({"schema": {"codec": "raw"}}, ValueError),
    ],
)
def test_stores_that_are_not_created(tmp_path: Path, arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        DenseDataset(tmp_path / "ds", **({"dtype": "<f4", "item_shape": (2,)} | arguments))
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"mine")
    for make in (
        lambda: DenseDataset(file),
        lambda: DenseDataset(file, dtype="<f4", item_shape=()),
        lambda: RaggedDataset(file, dtype="<f4"),
        lambda: Zrecord(file),
        lambda: Zrecord(file, read_only=True),
        lambda: from_numpy(file, np.zeros(3)),
        lambda: MSDataset(file),
    ):
        with pytest.raises(NotADirectoryError, match=str(file)):
            make()
    assert file.read_bytes() == b"mine"
    with pytest.raises(NotADirectoryError):
        DenseDataset(file / "below", dtype="<f4", item_shape=())


def test_a_path_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "missing"
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: DenseDataset(path), "to create one, give dtype= and item_shape="),
        (lambda: DenseDataset(path, dtype="<f4"), "give dtype= and item_shape="),
        (lambda: RaggedDataset(path), "give dtype="),
        (lambda: DenseDataset(path, dtype="<f4", item_shape=(), read_only=True), "no dataset to read"),
        (lambda: MSDataset(path), "missing"),
    ]
    for make, text in cases:
        with pytest.raises(FileNotFoundError, match=text) as caught:
            make()
        assert caught.value.filename == str(path)
    assert not path.exists()


def test_a_directory_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"mine")
    with unchanged(tmp_path):
        for make in (
            lambda: DenseDataset(tmp_path, dtype="<f4", item_shape=()),
            lambda: Zrecord(tmp_path),
            lambda: from_numpy(tmp_path, np.zeros(3)),
        ):
            with pytest.raises(ZrecordError, match=str(tmp_path)):
                make()
        with pytest.raises(FileNotFoundError, match=r"the directory has no meta\.zr"):
            DenseDataset(tmp_path)


@pytest.mark.parametrize("name", ["with space", "größe-数据-🙂", "a'b\"c", "-x", "deep/er/still"])
def test_paths_of_every_sort(tmp_path: Path, name: str, rows: Array) -> None:
    for path in (tmp_path / name, str(tmp_path / "text" / name)):
        assert from_numpy(path, rows) == 20
        with DenseDataset(path) as ds:
            assert same(ds[:], rows)
            assert ds.path == Path(path)
            ds.append(rows)
            ds.delete(0)
            ds.compact()
    with pytest.raises(TypeError):
        DenseDataset(b"bytes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="NUL"):
        DenseDataset("nul\0", dtype="<f4", item_shape=())


def test_a_path_without_permission(tmp_path: Path, dense: DenseDataset) -> None:
    """Readers need no write permission; writing and creating without it is a PermissionError."""
    dense.close()
    code = """
import os, sys, numpy as np
from loaderx.dataset import DenseDataset
from loaderx.utils import from_numpy
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
with DenseDataset(sys.argv[1]) as ds:
    assert ds[:].shape == (20, 2, 3)
    for change in (lambda: ds.append(np.zeros((1, 2, 3), np.float32)), lambda: ds.delete(0), ds.compact):
        try:
            change()
        except PermissionError as error:
            assert sys.argv[1] in str(error), error
        else:
            raise AssertionError("was written")
for make in (lambda: from_numpy(sys.argv[2], np.zeros(3)), lambda: DenseDataset(sys.argv[3])):
    try:
        make()
    except PermissionError as error:
        assert sys.argv[2] in str(error) or sys.argv[3] in str(error), error
    else:
        raise AssertionError("no error")
"""
    home = tmp_path / "home"
    (home / "secret").mkdir(parents=True)
    shutil.copytree(dense.path, home / "ds")
    for path in (home / "ds").iterdir():
        path.chmod(0o444)
    (home / "ds").chmod(0o555)
    (home / "secret").chmod(0o000)
    home.chmod(0o555)
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    try:
        with unchanged(home / "ds"):
            done = run_python(code, str(home / "ds"), str(home / "new"), str(home / "secret" / "ds"))
        assert done.returncode == 0, done.stderr
    finally:
        for path in (home, home / "ds", home / "secret"):
            path.chmod(0o755)


def test_a_store_without_its_dictionary_is_not_written(tmp_path: Path) -> None:
    with DenseDataset(tmp_path / "ds", dtype=np.uint8, item_shape=(8, 8), codec="zstd_dict") as ds, unchanged(ds.path):
        with pytest.raises(UnsupportedCodecError, match="dictionary"):
            ds.append(images(3))
        assert len(ds) == 0


def test_iterators_that_do_not_fit(tmp_path: Path) -> None:
    for source, error in [
        ([[1.5], [None]], TypeError),
        (5, TypeError),
        (b"abc", TypeError),
        ("abc", TypeError),
        ({"a": 1}, TypeError),
    ]:
        with pytest.raises(error):
            from_iterator(tmp_path / "ds", source, np.float64)  # type: ignore[arg-type]
        assert list(tmp_path.iterdir()) == []
