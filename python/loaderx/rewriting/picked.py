"""Records of one store or of several, in the order in which they are to be written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loaderx.copying.block import BLOCK_RECORDS, Block, cut
from loaderx.copying.snapshot import Snapshot
from loaderx.dataset.index import Indices
from loaderx.dataset.packed import offsets_of


@dataclass(frozen=True)
class Piece:
    """Records of one store, in this order; None: all of them."""

    records: Snapshot
    index: Indices | None = None

    def __len__(self) -> int:
        return len(self.records) if self.index is None else len(self.index)

    def at(self, places: Indices) -> Indices:
        """The indices in the store of the records at these places of the piece."""
        return places if self.index is None else self.index[places.astype(np.int64)]


class Picked:
    """The records of pieces, one piece behind another: a source for copying, and for the training of a dictionary."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self._starts = offsets_of([len(piece) for piece in pieces])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def blocks(self) -> Iterator[Block]:
        """All records in order, with their shapes; a block is of one piece."""
        for start, piece in zip(self._starts.tolist(), self.pieces, strict=False):
            for first in range(0, len(piece), BLOCK_RECORDS):
                idxs = piece.at(np.arange(first, min(first + BLOCK_RECORDS, len(piece)), dtype=np.uint64))
                for begin, end in cut(piece.records.lengths(idxs)):
                    yield piece.records.block(start + first + begin, idxs[begin:end])

    def lengths(self, places: Indices) -> npt.NDArray[np.uint32]:
        """The bytes of the records at these places, ascending, shape (n,)."""
        parts = [piece.records.lengths(idxs) for piece, idxs in self._of_pieces(places)]
        return np.concatenate([np.empty(0, np.uint32), *parts])

    def gather_packed(self, places: Indices) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """The records at these places, ascending, one after another, and their byte offsets, shape (n + 1,)."""
        parts = [piece.records.gather_packed(idxs) for piece, idxs in self._of_pieces(places)]
        values = np.concatenate([np.empty(0, np.uint8), *(values for values, _ in parts)])
        lengths = np.concatenate([np.empty(0, np.int64), *(np.diff(offsets) for _, offsets in parts)])
        return values, offsets_of(lengths)

    def _of_pieces(self, places: Indices) -> Iterator[tuple[Piece, Indices]]:
        """Each piece that has some of the places, and which of its records these are."""
        cuts = np.searchsorted(places, self._starts.astype(np.uint64))
        for number, piece in enumerate(self.pieces):
            own = places[cuts[number] : cuts[number + 1]] - np.uint64(self._starts[number])
            if own.size:
                yield piece, piece.at(own)
