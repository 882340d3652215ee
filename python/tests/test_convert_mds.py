from __future__ import annotations

import importlib
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from converting import (
    FIXTURES,
    assert_holds,
    begins_everywhere,
    converted,
    cuts,
    damaged,
    flips,
    records_from,
    resumes_everywhere,
    selects,
    small_parts,
    source_of,
    texts,
    writes_nothing,
)
from loaderx.converters import convert

FILES = FIXTURES / "mds"
NUMBERS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
COMPRESSIONS = {"gz": None, "bz2": None, "zstd": "zstandard", "snappy": "snappy", "br": "brotli"}


def needs(compression: str) -> None:
    """Skip where the package for it isn't installed."""
    module = COMPRESSIONS[compression]
    if module is None:
        return
    try:
        importlib.import_module("compression.zstd" if compression == "zstd" else module)
    except ImportError:
        pytest.importorskip(module)


def holds(streams: Any) -> None:
    """What all fixtures have."""
    count = range(12)
    assert [record.tobytes() for record in streams["bytes"].records] == [bytes(range(i)) for i in count]
    assert texts(streams["str"]) == [f"h\u00e9 {i}" for i in count]
    assert_holds(streams["int"], np.arange(12) - 4, "<i8")
    assert_holds(streams["fixed"], np.stack([np.arange(6, dtype="i2").reshape(2, 3) * i for i in count]), "<i2")


def test_every_encoding_that_streaming_wrote(tmp_path: Path) -> None:
    streams = converted(FILES / "plain", tmp_path / "out")
    holds(streams)
    for name in NUMBERS:
        assert_holds(streams[f"a_{name}"], (np.arange(12) * 3 + 1).astype(name), name)
    assert [json.loads(text) for text in texts(streams["json"])] == [{"i": i} for i in range(12)]
    assert texts(streams["str_int"]) == [str(10**20 + i) for i in range(12)]
    assert texts(streams["str_float"]) == [str(i / 3) for i in range(12)]
    assert texts(streams["str_decimal"]) == [str(Decimal(i) / 7) for i in range(12)]
    typed = [np.arange((i + 1) * 2, dtype="f4").reshape(2, -1) for i in range(12)]
    assert_holds(streams["typed"], typed, "<f4")
    assert_holds(streams["free"], [np.arange(i + 300 * (i == 5) + 1, dtype="u2") for i in range(12)], "<u2")
    for name, start in (("png", b"\x89PNG"), ("jpeg", b"\xff\xd8\xff"), ("pil", (4).to_bytes(4, "little"))):
        assert streams[name].records[0].tobytes().startswith(start), name


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_compressed_shards(tmp_path: Path, compression: str) -> None:
    needs(compression)
    streams = converted(FILES / compression, tmp_path / "out")
    assert len(streams) == 4
    holds(streams)


@pytest.mark.parametrize(("name", "options"), [("plain", {}), ("plain", {"check_hashes": False}), ("gz", {})])
def test_it_begins_and_resumes_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, options: Any
) -> None:
    small_parts(monkeypatch, 2000)
    begins_everywhere(FILES / name, most=14, **options)
    assert (
        resumes_everywhere(
            FILES / name, tmp_path, most=3, streams=["free", "str"] if name == "plain" else None, **options
        )
        > 1
    )


def test_each_stream_alone(tmp_path: Path) -> None:
    selects(FILES / "gz", tmp_path)


def test_a_dry_run_says_what_it_would_do(tmp_path: Path) -> None:
    said = writes_nothing(FILES / "numbers", tmp_path)
    assert f"MosaicML MDS shards, {1 + len(list((FILES / 'numbers').glob('*.mds')))} files" in said
    assert "12 records" in said
    assert "int: dense () '<i8', zstd, from column 'int': int" in said


def test_several_directories_with_an_index_each(tmp_path: Path) -> None:
    for name in ("2", "10"):
        shutil.copytree(FILES / "numbers", tmp_path / "in" / name)
    assert_holds(converted(tmp_path / "in", tmp_path / "out")["int"], np.tile(np.arange(12) - 4, 2))


def test_a_shard_without_samples(tmp_path: Path) -> None:
    assert json.loads((FILES / "empty" / "index.json").read_bytes())["shards"][0]["samples"] == 0
    assert_holds(converted(FILES / "empty", tmp_path / "out")["int"], np.array([-4]))


def test_a_pickled_column_is_never_unpickled(tmp_path: Path) -> None:
    said = r"index\.json: column 'x' is pickled.*streams= of the others leaves it out \(there are \['int'\]\)"
    for dry_run in (True, False):
        with pytest.raises(ValueError, match=said):
            convert(FILES / "pickled", tmp_path / "refused" / "out", dry_run=dry_run)
        with pytest.raises(ValueError, match=r"index\.json: column 'x' is pickled"):
            convert(FILES / "pickled", tmp_path / "refused" / "out", dry_run=dry_run, streams=["x"])
    assert "from column 'int'" in writes_nothing(FILES / "pickled", tmp_path, streams=["int"])
    assert_holds(converted(FILES / "pickled", tmp_path / "out", streams=["int"])["int"], np.array([3]))


def test_arrays_of_several_dtypes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"sample 1, column 'free': expected an array of '\|i1' as in the first sample, found '<i2'"
    ):
        convert(FILES / "dtypes", tmp_path / "out")


def copied(name: str, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    shutil.copytree(FILES / name, tmp_path / "in")
    return tmp_path / "in", json.loads((tmp_path / "in" / "index.json").read_bytes())


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (["raw_data", "basename"], "../x.mds", "outside the directory"),
        (["raw_data", "basename"], "/etc/passwd", "outside the directory"),
        (["raw_data", "bytes"], 7, "expected 7 bytes, as the index says, found"),
        (["raw_data", "bytes"], -1, "expected a number of 32 bits"),
        (["samples"], 10**9, "expected a table of 1000000000 samples"),
        (["samples"], 1 << 70, "expected a number of 32 bits"),
        (["samples"], 0, "expected a table of 0 samples"),
        (["column_encodings", 1], "torch", "encoding 'torch' is none that is known"),
        (["column_encodings", 1], "int32", "expected values of 4 bytes for 'int32', found 8"),
        (["column_sizes", 1], 1 << 60, "expected values of 8 bytes for 'int', found"),
        (["column_sizes", 1], None, "expected values of 8 bytes for 'int', found None"),
        (["column_names"], None, "no index of MDS shards"),
        (["column_names", 1], "..", r"can't have the name '\.\.'"),
        (["column_names", 1], "", "can't have the name ''"),
        (["compression"], "lzma", "compression 'lzma' is none that is known"),
        (["raw_data"], [], "no index of MDS shards"),
        (["raw_data", "hashes"], {"sha1": "0"}, "its sha1 is .*expected 0"),
    ],
)
def test_an_index_that_lies_is_an_error(tmp_path: Path, path: list[Any], value: Any, text: str) -> None:
    source, index = copied("numbers", tmp_path)
    place = index["shards"][0]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    (source / "index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match=text):
        everything(source)


@pytest.mark.parametrize(
    "content", [b'{"format": "mds"', b'{"shards": [], "format": "mds"}', b'["format": "mds"]', b'"format": "mds"']
)
def test_what_is_no_index(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "index.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"index\.json: "):
        convert(tmp_path, tmp_path / "out")


@pytest.mark.parametrize("name", ["plain/shard.00001.mds", "gz/shard.00000.mds.gz", "numbers/shard.00000.mds"])
@pytest.mark.parametrize("check", [True, False])
def test_damage_is_an_error_that_names_the_file(tmp_path: Path, name: str, check: bool) -> None:
    source, _ = copied(Path(name).parent.name, tmp_path)
    file = source / Path(name).name
    whole = file.read_bytes()
    before = everything(source, check_hashes=check)
    hashed = name.startswith(("plain", "gz")) and check
    for damage in damaged(file, [*flips(whole, 80), *cuts(whole, 20)]):
        try:
            after = everything(source, check_hashes=check)
        except (ValueError, OSError) as error:
            if "shard.0000" not in str(error):
                raise
            continue
        assert "changed" in damage, damage
        assert not hashed or (after == before and name.startswith("gz")), damage


def everything(source: Path, **options: Any) -> dict[str, list[bytes]]:
    """All streams, as bytes."""
    with source_of(source, **options) as opened:
        found = records_from(opened, 0, [spec.name for spec in opened.streams])
        return {name: [record.tobytes() for record in records] for name, records in found.items()}


def test_a_bomb_is_not_inflated(tmp_path: Path) -> None:
    import gzip

    source, index = copied("gz", tmp_path)
    bomb = gzip.compress(bytes(1 << 26))
    index["shards"][0]["zip_data"].update(bytes=len(bomb), hashes={})
    (source / "index.json").write_text(json.dumps(index))
    (source / "shard.00000.mds.gz").write_bytes(bomb)
    with pytest.raises(ValueError, match=r"shard\.00000\.mds\.gz: expected [0-9]+ bytes once inflated, found more"):
        everything(source)


def test_shards_that_streaming_writes_now(tmp_path: Path) -> None:
    streaming = pytest.importorskip("streaming")
    columns = {"x": "ndarray:float32:3", "y": "str"}
    with streaming.MDSWriter(out=str(tmp_path / "in"), columns=columns, compression="gz", size_limit=300) as writer:
        for i in range(30):
            writer.write({"x": np.full(3, i, np.float32), "y": "y" * i})
    streams = converted(tmp_path / "in", tmp_path / "out")
    assert_holds(streams["x"], np.repeat(np.arange(30, dtype="f4"), 3).reshape(30, 3))
    assert texts(streams["y"]) == ["y" * i for i in range(30)]
