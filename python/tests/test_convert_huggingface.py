"""Datasets that Hugging Face's own package made and saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from converting import (
    Stored,
    assert_holds,
    begins_everywhere,
    converted,
    cut_early,
    goes_on_with_itself_alone,
    needed,
    resumes_everywhere,
    small_parts,
    texts,
    writes_nothing,
)
from loaderx.converters import convert

pytestmark = pytest.mark.timeout(300)
datasets = needed("datasets")


def made(count: int = 30) -> Any:
    rng = np.random.default_rng(0)
    features = datasets.Features(
        {
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "text": datasets.Value("string"),
            "tokens": datasets.List(datasets.Value("int32")),
            "box": datasets.List(datasets.Value("float32"), length=4),
            "grid": datasets.Array2D((2, 3), "uint8"),
            "frames": datasets.Array2D((None, 2), "int16"),
            "more": {"x": datasets.Value("int8"), "kind": datasets.ClassLabel(names=["a", "b"])},
        }
    )
    columns = {
        "label": [i % 2 for i in range(count)],
        "text": [f"text {i}" for i in range(count)],
        "tokens": [list(range(i % 4)) for i in range(count)],
        "box": [[float(i)] * 4 for i in range(count)],
        "grid": rng.integers(0, 255, (count, 2, 3)).tolist(),
        "frames": [np.full((1 + i % 3, 2), i).tolist() for i in range(count)],
        "more": [{"x": i, "kind": (i + 1) % 2} for i in range(count)],
    }
    return datasets.Dataset.from_dict(columns, features=features)


def check(streams: dict[str, Stored], rows: range) -> None:
    grid = np.random.default_rng(0).integers(0, 255, (30, 2, 3)).astype(np.uint8)
    assert streams["label"].metadata == {"classes": ["cat", "dog"]}
    assert streams["more.kind"].metadata == {"classes": ["a", "b"]}
    number = np.array(rows)
    assert_holds(streams["label"], number % 2, np.int64)
    assert texts(streams["text"]) == [f"text {i}" for i in rows]
    assert_holds(streams["tokens"], [list(range(i % 4)) for i in rows], np.int32)
    assert_holds(streams["box"], np.repeat(number[:, None], 4, 1).astype(np.float32))
    assert_holds(streams["grid"], grid[number])
    assert_holds(streams["frames"], [np.full((1 + i % 3, 2), i) for i in rows], np.int16)
    assert_holds(streams["more.x"], number.astype(np.int8))


def test_a_saved_dataset(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made().save_to_disk(str(memory / "in"), num_shards=3)
    check(converted(memory / "in", memory / "out"), range(30))
    assert resumes_everywhere(memory / "in", memory, streams=["tokens", "grid", "text"]) == 3
    begins_everywhere(memory / "in")
    assert "Hugging Face datasets, 3 files" in writes_nothing(memory / "in", memory)


def test_a_dataset_in_memory(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = made()
    check(converted(dataset, memory / "out"), range(30))
    some = dataset.select(range(20, 5, -1))
    check(converted(some, memory / "some"), range(20, 5, -1))
    begins_everywhere(some)
    small_parts(monkeypatch, 60)
    begins_everywhere(some)
    assert resumes_everywhere(some.select_columns(["tokens", "label"]), memory) > 3


def test_a_dataset_in_memory_that_is_another_one(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch, 60)
    number = list(range(30))
    one = datasets.Dataset.from_dict({"x": number})
    goes_on_with_itself_alone(lambda which: datasets.Dataset.from_dict({"x": [*number[:-1], which]}), memory)
    goes_on_with_itself_alone(lambda which: one.select(number[::-1] if which else number), memory)
    goes_on_with_itself_alone(lambda which: one.shuffle(seed=which), memory)


def test_an_open_dataset_of_files(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch, 60)
    for which in range(2):
        datasets.Dataset.from_dict({"x": [which, *range(29)]}).save_to_disk(str(memory / f"in{which}"))

    def made(which: int) -> Any:
        return datasets.load_from_disk(str(memory / f"in{which}"))

    goes_on_with_itself_alone(made, memory)
    cut_early(made(0), memory / "out")
    # Its files become others, and what is written of how it was made stays.
    (file,) = (memory / "in0").glob("*.arrow")
    file.write_bytes((memory / "in1" / file.name).read_bytes())
    with pytest.raises(ValueError, match="source: was"):
        convert(made(0), memory / "out")


def test_parquet_and_arrow_of_it(memory: Path) -> None:
    dataset = made()
    dataset.to_parquet(str(memory / "in.parquet"))
    check(converted(memory / "in.parquet", memory / "out"), range(30))


def test_splits(memory: Path) -> None:
    both = datasets.DatasetDict({"train": made(4), "test": made(2)})
    with pytest.raises(ValueError, match=r"convert one of them, such as dataset\['train'\]"):
        convert(both, memory / "out")
    both.save_to_disk(str(memory / "in"))
    with pytest.raises(ValueError, match="several datasets: convert one of .*in/train, .*in/test"):
        convert(memory / "in", memory / "out")
    assert len(converted(memory / "in/test", memory / "out")["label"].records) == 2


def test_images(memory: Path) -> None:
    image = needed("PIL.Image")
    pictures = [image.fromarray(np.full((4, 5, 3), i, np.uint8)) for i in range(3)]
    dataset = datasets.Dataset.from_dict({"image": pictures}, features=datasets.Features({"image": datasets.Image()}))
    dataset.save_to_disk(str(memory / "in"))
    streams = converted(memory / "in", memory / "out")
    import io

    for i, record in enumerate(streams["image"].records):
        found = np.asarray(image.open(io.BytesIO(record.tobytes())))
        assert (found == i).all()
        assert found.shape == (4, 5, 3)
    pictures[0].save(memory / "a.png")
    outside = datasets.Dataset.from_dict({"image": [str(memory / "a.png")]}).cast_column("image", datasets.Image())
    with pytest.raises(ValueError, match=r"column 'image'.*has no bytes, only the path '.*a\.png'; embed the files"):
        convert(outside, memory / "outside")


def test_what_a_directory_may_say(memory: Path) -> None:
    made(3).save_to_disk(str(memory / "in"))
    state = memory / "in/state.json"
    said = json.loads(state.read_text())
    for content, match in (
        (b"{", "not what save_to_disk writes"),
        (b"[]", "not what save_to_disk writes"),
        (
            json.dumps(said | {"_data_files": [{"filename": "../x.arrow"}]}).encode(),
            "expected names of files beside it",
        ),
        (json.dumps(said | {"_indices_data_files": [{}]}).encode(), "an order of their own"),
        (json.dumps(said | {"_data_files": []}).encode(), "it has no files"),
    ):
        state.write_bytes(content)
        with pytest.raises(ValueError, match=match):
            convert(memory / "in", memory / "out")
