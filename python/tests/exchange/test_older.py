"""Stores that older releases write now, at their full size, and whether the fixtures are what they write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures import make
from fixtures.stores import check, names, unpacked
from loaderx import DenseDataset, RaggedDataset, Zrecord, ZrecordError, migrate, verify

LIVE = ("0.5.0", "0.9.11")


@pytest.fixture(scope="module", params=LIVE)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def written(peer: Callable[[str], Path], version: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(version)
    make.write(peer(f"loaderx=={version}"), version, folder)
    return folder


def test_each_is_migrated(written: Path, version: str, tmp_path: Path) -> None:
    assert sorted(path.name for path in written.iterdir()) == names(version)
    for name in names(version):
        migrate(written / name, tmp_path / name)
        check(tmp_path / name, name)
        assert verify(tmp_path / name).ok


def test_none_opens_as_it_is(written: Path, version: str) -> None:
    for name in names(version):
        for kind in (DenseDataset, RaggedDataset, Zrecord):
            with pytest.raises(ZrecordError, match="migrate"):
                kind(written / name)


def test_the_fixtures_are_what_it_writes(written: Path, version: str, tmp_path: Path) -> None:
    kept = unpacked(version, tmp_path)
    for name in names(version):
        make.trim(written / name)
        files = {file.name: file.read_bytes() for file in (written / name).iterdir()}
        assert files == {file.name: file.read_bytes() for file in (kept / name).iterdir()}, name
