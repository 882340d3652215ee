"""Reading while something else is written."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from loaderx.copying.block import Block


def ahead(blocks: Iterator[Block]) -> Iterator[Block]:
    """The same blocks; while the caller works on one, a thread reads the next. That thread is gone when this ends, however it does."""
    with ThreadPoolExecutor(1, "loaderx-read") as reader:
        upcoming = reader.submit(next, blocks, None)
        while (block := upcoming.result()) is not None:
            upcoming = reader.submit(next, blocks, None)
            yield block
