"""Rewriting a store of loaderx 0.5 to 1.4 as one of today."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loaderx._core import Store
from loaderx.copying.block import Block
from loaderx.copying.place import streams_of, unfinished
from loaderx.copying.writing import copy
from loaderx.dataset.schema import Shape
from loaderx.dataset.tiers import tier_named
from loaderx.generations import meaning
from loaderx.generations.layout import COMPRESSED, WITH_DICTIONARY
from loaderx.generations.meaning import Meaning
from loaderx.generations.source import OldStore
from loaderx.older import is_older, refuse_version_2
from loaderx.progress import Progress, telling
from loaderx.utils.arrays import check_dictionary
from loaderx.utils.dictionary import from_records
from loaderx.utils.gain import Gain, Written, trained_for
from loaderx.zrecord import PathLike, no_store


def migrate(
    old: PathLike,
    new: PathLike,
    codec: str | None = None,
    *,
    level: int | None = None,
    dict_bytes: bytes | None = None,
    dtype: npt.DTypeLike | None = None,
    item_shape: Shape | None = None,
    progress: Progress | bool | None = None,
) -> Written:
    """Rewrite a store of loaderx 0.5 to 1.4 as a new one; the old one is only read. Nobody may write to it meanwhile.

    All of its table is checked first, then each record as it is decoded, and at last all records of both stores are read again and
    compared. About 100 MiB of memory are used. `new` appears when all is done; if it fails, nothing is left, and if the process is
    killed, a directory `.NEW.unfinished-...` beside it.

    Args:
        old: directory of the old store, or of several streams, which must be of one length; other files beside them are left out.
        new: directory of the new one; there must be nothing yet.
        codec: "raw", "zstd" or "zstd_dict". None: that of the old store; "zstd" for deflate.
        level: zstd level of the new store. None: 3 for "zstd", 19 for "zstd_dict".
        dict_bytes: dictionary for "zstd_dict". None: that of the old store, or else one is trained on all its records.
        dtype: what the records are, instead of what the old schema says, or where it says nothing. A store without a schema becomes one
            without, to be opened with `loaderx.zrecord.Zrecord`, or with a `dtype` a ragged one.
        item_shape: in the same way the shape of each record, or of a ragged one without its first dimension.
        progress: called with (done, total) now and then, of each stream in turn; a record counts when it was written and when it was
            compared. True: a line on stderr that tells it.

    Returns:
        The number of records, or of those of each stream; its `gains` tell what a dictionary gains that was trained.

    Raises:
        FileExistsError: there is something at `new`.
        FileNotFoundError: there is no store at `old`.
        ValueError: `old` is no store of these releases, or arguments that do not fit.
        ZrecordError: the old store is damaged, or `dtype` and `item_shape` are not those of its records; the message names the record.
    """
    old, new = Path(old), Path(new)
    check_dictionary(codec or "zstd_dict", dict_bytes)
    options = Options(codec, level, dict_bytes, dtype, item_shape)
    names = streams_of(old)
    if names and not options.suit_streams():
        raise ValueError(f"{old}: dtype, item_shape and dict_bytes are of one store, and here are the streams {names}")
    for store in [old / name for name in names] or [old]:
        refuse_others(store)
    lengths: dict[str, int] = {}
    gains: dict[str, Gain | None] = {}
    with telling(progress) as tell, unfinished(new, old) as directory:
        for name in names or [""]:
            scratch = directory / "scratch" / name
            lengths[name], trained = rewrite(old / name, directory / "new" / name, scratch, options, tell)
            gains.update((name, gain) for gain in trained)
        if len(set(lengths.values())) != 1:
            raise ValueError(f"{old}: expected streams of one length, found {lengths}; migrate them one by one")
        return Written(min(lengths.values()), gains)


class Options(NamedTuple):
    """What becomes of the records."""

    codec: str | None
    level: int | None
    dict_bytes: bytes | None
    dtype: npt.DTypeLike | None
    item_shape: Shape | None

    def suit_streams(self) -> bool:
        """Whether nothing is given that is of one store alone."""
        return self.dict_bytes is None and self.dtype is None and self.item_shape is None


def rewrite(
    old: Path, new: Path, scratch: Path, options: Options, progress: Progress | None
) -> tuple[int, list[Gain | None]]:
    """Rewrite one store; the number of its records, and the gain of its dictionary if one was trained.

    `scratch`: a directory to be made, to work in.
    """
    meant, stated = meaning.read(old, options.dtype, options.item_shape)
    scratch.mkdir(parents=True)
    with OldStore(old, scratch) as records:
        if meant is not None:
            meant.check_length(old, len(records))
        chosen = options.codec or stated or codec_of(records)
        dictionary, trained = dictionary_for(chosen, options, records, scratch)
        copy(
            Records(records, meant),
            new,
            chosen,
            None if meant is None else meant.schema(chosen),
            level=options.level,
            dictionary=dictionary,
            uniform=meant is not None and meant.kind == "dense",
            progress=progress,
        )
        return len(records), trained


def refuse_others(old: Path) -> None:
    """An error if there is no old store at `old`."""
    if not Store.exists(old):
        raise no_store(old, "there is no store to migrate")
    refuse_version_2(old)
    if not is_older(old):
        raise ValueError(
            f"{old}: this is no store of loaderx 0.5 to 1.4; those of 1.5 and of this project open as they are"
        )


def codec_of(records: OldStore) -> str:
    """The new codec for a store without a schema."""
    if records.counts[WITH_DICTIONARY]:
        return "zstd_dict"
    return "zstd" if records.counts[COMPRESSED] or not len(records) else "raw"


def dictionary_for(
    codec: str, options: Options, records: OldStore, scratch: Path
) -> tuple[bytes | None, list[Gain | None]]:
    """The new store's dictionary, and its gain if it was trained. ZrecordError if the records are too few or too small for that."""
    if codec != "zstd_dict":
        return None, []
    found = options.dict_bytes or records.dictionary()
    if found is not None or not len(records):
        return found, []
    # Old stores can't be read at some records only, and none of these is longer than a MiB.
    sample = from_records(each(records.blocks()), tier_named(None)["samples"], limit=None)
    dictionary, gain = trained_for(records.path, sample, None, options.level, scratch)
    return dictionary, [gain]


def each(blocks: Iterable[Block]) -> Iterator[npt.NDArray[np.uint8]]:
    """The bytes of each record."""
    for block in blocks:
        for begin, end in zip(block.offsets[:-1].tolist(), block.offsets[1:].tolist(), strict=True):
            yield block.values[begin:end]


class Records:
    """The records of an old store with what they mean."""

    def __init__(self, records: OldStore, meant: Meaning | None) -> None:
        self._records, self._meaning = records, meant

    def __len__(self) -> int:
        return len(self._records)

    def blocks(self) -> Iterator[Block]:
        """All records in order, with their shapes."""
        for block in self._records.blocks():
            yield block if self._meaning is None else self._meaning.applied(self._records.path, block)
