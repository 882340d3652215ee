"""The header as Python reads and makes it, beside what the core writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from loaderx.dataset import header
from loaderx.zrecord import CODECS, Zrecord


@pytest.mark.parametrize("count", [0, 1, 300])
def test_it_is_that_of_the_core(tmp_path: Path, count: int) -> None:
    with Zrecord(tmp_path / "store", "raw") as store:
        for _ in range(count):
            store.append_rows(np.zeros((1, 7), np.uint8))
    content = (tmp_path / "store" / header.FILE).read_bytes()
    assert header.length_in(content) == header.length_in(content[: header.PLAIN.size]) == count
    assert header.plain(CODECS["raw"], (0, 7 * count), count) == header.made_plain(content)
    assert header.made_plain(content) != content


def test_a_header_that_was_cut() -> None:
    for size in range(header.PLAIN.size):
        assert header.length_in(bytes(size)) is None
