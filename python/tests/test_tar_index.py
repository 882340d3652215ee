"""The walk over tar archives, beside tarfile as its naive twin."""

from __future__ import annotations

import io
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loaderx.converters.formats import tar_index
from loaderx.converters.formats.tar_index import MISSING, Shard, indexed

NAME = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$")
"""webdataset's own."""
FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
NPY = b"\x93NUMPY\x01\x00\x40\x00" + b"{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }".ljust(63) + b"\n"
folders = st.sampled_from(["d", "d.d", "k" * 120, "k" * 60 + "/" + "l" * 90])
extensions = st.sampled_from(["Txt", "x.npy", "npy", "c" * 130])
names = st.one_of(
    st.text("aB./_\u00c4\u4e00\n", min_size=1, max_size=12),
    st.builds("{}/{}.{}".format, folders, st.text("ab", max_size=2), extensions),
)
contents = st.one_of(st.binary(max_size=1200), st.integers(0, 3).map(lambda n: n * 512 * b"c"))
members = st.lists(st.tuples(names, contents, st.booleans()), max_size=12)


def twin(archive: Path) -> list[tuple[str, str, int, int]]:
    """Key, extension, start and size of each file, in order. ValueError where two have one name."""
    found: list[tuple[str, str, int, int]] = []
    with tarfile.open(archive) as opened:
        for info in opened:
            split = NAME.match(info.name)
            if info.isreg() and split and split[2] and not re.match("__[^/]*__($|/)", info.name):
                found.append((split[1], split[2].lower(), info.offset_data, info.size))
    key, extensions = None, set[str]()
    for name, extension, *_ in found:
        if name != key:
            key, extensions = name, set()
        if extension in extensions:
            raise ValueError(extension)
        extensions.add(extension)
    return found


def walked(shard: Shard) -> list[tuple[str, str, int, int]]:
    """The same of an index."""
    found = [
        (shard.key(int(sample)), extension, int(start), int(size))
        for extension, member in shard.members.items()
        for sample, start, size in zip(member.samples, member.starts, member.sizes, strict=True)
    ]
    return sorted(found, key=lambda file: file[2:])


def made(path: Path, form: int, files: list[tuple[str, bytes, bool]], compression: str = "") -> bool:
    """Write an archive; False where the format can't hold it."""
    with tarfile.open(path, f"w:{compression}", format=form) as archive:  # type: ignore[call-overload]
        for name, content, is_folder in files:
            info = tarfile.TarInfo(name)
            info.mtime, info.uid = 1.5 if form == tarfile.PAX_FORMAT else 1, 5_000_000 if form else 0
            content = NPY + content[:8].ljust(8) if name.lower().endswith(".npy") else content
            if is_folder:
                info.type, content = tarfile.DIRTYPE, b""
            info.size = len(content)
            try:
                archive.addfile(info, io.BytesIO(content))
            except ValueError:
                return False
    return True


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("compression", ["", "gz"])
@given(files=members)
def test_it_finds_what_tarfile_finds(tmp_path_factory: Any, form: int, compression: str, files: Any) -> None:
    path = tmp_path_factory.mktemp("tar") / "x.tar"
    if not made(path, form, files, compression):
        return
    try:
        expected = twin(path)
    except ValueError:
        with pytest.raises(ValueError, match="has two files"):
            indexed(path, {}, ["npy"])
        return
    shard = indexed(path, {}, ["npy"])
    assert walked(shard) == sorted(expected, key=lambda file: file[2:])
    keys = [key for at, (key, *_) in enumerate(expected) if at == 0 or expected[at - 1][0] != key]
    assert [shard.key(sample) for sample in range(len(shard))] == keys
    for extension, member in shard.members.items():
        is_array = extension.rpartition(".")[2] == "npy"
        assert set(member.headers.tolist()) == {0 if is_array else MISSING}


@given(files=members, data=st.data())
def test_what_tarfile_refuses_is_refused(tmp_path_factory: Any, files: Any, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("tar") / "x.tar"
    if not made(path, data.draw(st.sampled_from(FORMATS)), [("1.txt", b"text", False), *files]):
        return
    whole = path.read_bytes()
    with tarfile.open(path) as opened:
        ends = [info.offset_data for info in opened if info.isreg()]
    cut = data.draw(st.integers(0, ends[-1]))
    path.write_bytes(whole[:cut])
    with pytest.raises(ValueError, match=r"x\.tar: .*(cut or damaged|is cut|two files)"):
        indexed(path, {}, ["npy"])
    flipped = bytearray(whole)
    # What is behind the checksum's digits doesn't matter.
    at = data.draw(st.sampled_from(ends)) - 512 + data.draw(st.integers(0, 511).filter(lambda at: at not in (154, 155)))
    flipped[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(flipped)
    with pytest.raises(ValueError, match=r"x\.tar"):
        indexed(path, {}, ["npy"])


def test_only_headers_of_large_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made(tmp_path / "x.tar", tarfile.PAX_FORMAT, [(f"{i}.bin", bytes(1 << 20), False) for i in range(20)])
    read = [0]

    class Counted(tar_index.InPlace):
        def read(self, position: int, size: int) -> bytes:
            content = super().read(position, size)
            read[0] += len(content)
            return content

    monkeypatch.setattr(tar_index, "InPlace", Counted)
    assert len(indexed(tmp_path / "x.tar", {})) == 20
    assert read[0] < 1 << 20


def test_extensions_that_few_samples_have_take_little_memory(tmp_path: Path) -> None:
    count = 3000
    assert made(tmp_path / "x.tar", tarfile.USTAR_FORMAT, [(f"{i}.e{i}", b"", False) for i in range(count)])
    shard = indexed(tmp_path / "x.tar", {})
    assert len(shard) == len(shard.members) == count
    assert sum(column.nbytes for member in shard.members.values() for column in vars(member).values()) < 100 * count
    within = shard.members["e7"].within(5, 9)
    assert within.present.tolist() == [False, False, True, False]
    assert within.sizes.tolist() == [0, 0, 0, 0]
