from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from loaderx.utils import from_iterator, from_numpy
from loaderx.zrecord import StoreLockedError
from support import all_same, contents, same, swap_last

COUNT = 12
IMAGES = np.arange(COUNT * 4, dtype=np.uint8).reshape(COUNT, 2, 2)
LABELS = np.arange(COUNT, dtype=np.int64)
TOKENS = [np.arange(i % 4, dtype=np.int32) for i in range(COUNT)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "multi"
    from_numpy(root / "label", LABELS)
    from_numpy(root / "image", IMAGES, codec="raw")
    from_iterator(root / "token", TOKENS, np.int32)
    (root / "notes").mkdir()
    (root / "README").write_text("no stream")
    return root


def check(ds: MSDataset, order: list[int]) -> None:
    assert len(ds) == len(order)
    assert same(ds["image"][:], IMAGES[order])
    assert same(ds["label"][:], LABELS[order])
    assert all_same(ds["token"][:], [TOKENS[i] for i in order])


def part(indices: list[int]) -> dict[str, Any]:
    return {"label": LABELS[indices], "token": [TOKENS[i] for i in indices], "image": IMAGES[indices]}


def test_streams(root: Path) -> None:
    with MSDataset(root) as ds:
        assert ds.names == list(ds.streams) == ["image", "label", "token"]
        assert isinstance(ds["image"], DenseDataset)
        assert isinstance(ds.streams["token"], RaggedDataset)
        assert "image" in ds
        assert "notes" not in ds
        check(ds, list(range(COUNT)))
        assert repr(ds) == f"MSDataset({str(root)!r}, len=12, streams=['image', 'label', 'token'])"
        with pytest.raises(KeyError, match=r"no stream 'x' in .*multi: expected one of \['image', 'label', 'token'\]"):
            ds["x"]
        with pytest.raises(KeyError, match="no stream 0"):
            ds[0]  # type: ignore[index]
        with pytest.raises(TypeError):
            iter(ds)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="closed"):
        ds["image"][0]


def test_names(root: Path) -> None:
    assert MSDataset(root, names=["token", "image"]).names == ["token", "image"]
    bad: list[tuple[Any, type[Exception]]] = [
        ("image", TypeError),
        ([1], TypeError),
        ([], ValueError),
        (["image", "image"], ValueError),
    ]
    for names, error in bad:
        with pytest.raises(error, match="names: expected"):
            MSDataset(root, names=names)
    with pytest.raises(FileNotFoundError, match="there is no such stream.*nothing"):
        MSDataset(root, names=["nothing"])


def test_options_reach_the_streams(root: Path) -> None:
    ds = MSDataset(root, read_only=True, io="pread")
    with pytest.raises(PermissionError):
        ds.append(part([0]))
    assert ds["image"]._options == {"verify": "always", "io": "pread", "read_only": True}


def test_what_is_no_multi_stream_dataset(root: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        MSDataset(tmp_path / "missing")
    with pytest.raises(NotADirectoryError):
        MSDataset(root / "README")
    with pytest.raises(FileNotFoundError, match="no streams"):
        MSDataset(root / "notes")


def test_unequal_lengths(root: Path) -> None:
    with DenseDataset(root / "label") as labels:
        labels.append(LABELS[:1])
    with pytest.raises(ValueError, match=r"streams of one length, found \{'image': 12, 'label': 13, 'token': 12\}"):
        MSDataset(root)
    assert len(MSDataset(root, names=["image", "token"])) == 12


def test_changes_keep_the_streams_aligned(root: Path) -> None:
    order = list(range(COUNT))
    with MSDataset(root) as ds:
        assert ds.append(part([3, 1])) == COUNT
        check(ds, [*order, 3, 1])
        ds.delete([0, -1, 5, 5])
        order = swap_last([*order, 3, 1], [0, 13, 5])
        check(ds, order)
        ds.delete(order.index(7))
        order = swap_last(order, [order.index(7)])
        ds.compact()
        ds.sync()
        check(ds, order)
    check(MSDataset(root), order)


def test_refresh(root: Path) -> None:
    reader = MSDataset(root)
    with MSDataset(root) as ds:
        ds.append(part([0]))
    assert len(reader) == 12
    assert reader.refresh() == len(reader) == 13


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"label": ...}, ValueError, r"missing: \['label'\], unknown: \[\]"),
        ({"x": LABELS[:2]}, ValueError, r"missing: \[\], unknown: \['x'\]"),
        ({"label": LABELS[:3]}, ValueError, "equally many records for every stream, found .*'label': 3"),
        ({"label": LABELS[:0]}, ValueError, "stream 'label': append: expected at least one record"),
        ({"token": [1.5, 2.5]}, ValueError, "stream 'token': append: record 0: expected dtype"),
        ({"token": [None, None]}, TypeError, "stream 'token': append: record 0"),
        ({"image": IMAGES[:2, 0]}, ValueError, "stream 'image': append: expected shape"),
    ],
)
def test_appends_that_are_refused(root: Path, changes: dict[str, Any], error: type[Exception], text: str) -> None:
    before = contents(root)
    with MSDataset(root) as ds:
        values = {name: value for name, value in (part([0, 1]) | changes).items() if value is not ...}
        with pytest.raises(error, match=text):
            ds.append(values)
        with pytest.raises(TypeError, match="expected a mapping of stream names"):
            ds.append([values])  # type: ignore[arg-type]
        assert len(ds) == COUNT
    assert contents(root) == before


def test_a_failing_stream_takes_the_others_back(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with MSDataset(root) as ds:

        def fail(checked: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(ds["token"], "_write", fail)
        with pytest.raises(OSError, match="No space left"):
            ds.append(part([0, 1]))
        monkeypatch.undo()
        check(ds, list(range(COUNT)))
        assert ds.append(part([2])) == COUNT
    check(MSDataset(root), [*range(COUNT), 2])


def test_what_can_not_be_taken_back_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other_reader = MSDataset(root)
    with MSDataset(root) as ds:
        monkeypatch.setattr(ds["token"], "_write", lambda checked: 1 / 0)
        with pytest.raises(ZeroDivisionError) as caught:
            ds.append(part([0, 1]))
        if sys.version_info >= (3, 11):
            assert "stream 'image' keeps records from 12 on that the others lack" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match="'image': 14, 'label': 14, 'token': 12"):
        MSDataset(root)
    other_reader.close()


def test_a_missing_stream_is_not_made(root: Path) -> None:
    shutil.rmtree(root / "label")
    before = contents(root)
    with pytest.raises(FileNotFoundError, match="label"):
        MSDataset(root, names=["image", "label"])
    assert contents(root) == before
    assert not (root / "label").exists()


def test_records_of_other_handles_are_not_taken_back(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with MSDataset(root) as ds:
        with MSDataset(root) as other:
            other.append(part([0, 1, 2]))
        monkeypatch.setattr(ds["token"], "_write", lambda checked: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ds.append(part([3]))
        monkeypatch.undo()
        assert ds.append(part([4])) == COUNT + 3
    check(MSDataset(root), [*range(COUNT), 0, 1, 2, 4])


def test_a_stream_that_is_locked_is_found_before_any_is_written(root: Path) -> None:
    with MSDataset(root) as ds, MSDataset(root) as other:
        other["token"]._store.begin_write()
        with pytest.raises(StoreLockedError):
            ds.append(part([0]))
        assert {name: len(stream) for name, stream in ds.streams.items()} == dict.fromkeys(ds.names, COUNT)


def test_a_delete_that_is_refused_changes_no_stream(root: Path) -> None:
    before = contents(root)
    with MSDataset(root) as ds, DenseDataset(root / "label"):
        with pytest.raises(StoreLockedError):
            ds.delete(0)
        assert {name: len(stream) for name, stream in ds.streams.items()} == dict.fromkeys(ds.names, COUNT)
    check(MSDataset(root), list(range(COUNT)))
    assert {name: before[name] for name in before if name.endswith(".loc")} == {
        name: value for name, value in contents(root).items() if name.endswith(".loc")
    }


def test_an_error_of_a_record_source_arrives_as_it_is(root: Path) -> None:
    class Odd(ValueError):
        def __init__(self, a: int, b: int) -> None:
            super().__init__(f"{a} {b}")

    def records() -> Any:
        yield np.zeros(1, np.int32)
        raise Odd(1, 2)

    with MSDataset(root) as ds, pytest.raises(Odd):
        ds.append(part([0]) | {"token": records()})


@pytest.mark.parametrize("after", [0, 1])
def test_an_append_that_is_interrupted_right_after_a_stream_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """As Ctrl-C does: the native call has returned, and nothing has noted that it did."""
    from_numpy(tmp_path / "a", np.arange(10), "raw")
    from_numpy(tmp_path / "b", np.arange(10), "raw")
    with MSDataset(tmp_path) as ds:
        write = DenseDataset._write

        def interrupted(stream: DenseDataset, checked: Any) -> int:
            write(stream, checked)
            if stream is list(ds.streams.values())[after]:
                raise KeyboardInterrupt
            return 10

        monkeypatch.setattr(DenseDataset, "_write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ds.append({"a": np.arange(3), "b": np.arange(3)})
        monkeypatch.undo()
        assert len(ds["a"]) == len(ds["b"]) == 10
        assert ds.append({"a": np.arange(3), "b": np.arange(3)}) == 10
