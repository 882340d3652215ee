"""A store split into several."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loaderx.dataset.streams import checked_names
from loaderx.progress import Progress
from loaderx.rewriting.encoding import Encoding, check
from loaderx.rewriting.origin import Origin, Source
from loaderx.rewriting.picked import Picked, Piece
from loaderx.rewriting.plan import Plan, Rewritten, Stream
from loaderx.rewriting.shares import shared_out
from loaderx.zrecord import PathLike


def split(
    src: Source,
    dst: PathLike,
    parts: Mapping[str, Any],
    seed: int = 42,
    shuffle: bool = True,
    codec: str | None = None,
    *,
    level: int | None = None,
    dict_tier: str | None = None,
    dict_bytes: bytes | None = None,
    progress: Progress | bool | None = None,
    verify: bool = True,
) -> Rewritten:
    """Write each record into one of several new stores: `dst/train`, `dst/val`; of several streams `dst/train/image`.

    Which part a record goes to is a function of the number of records, `parts` and `seed`. Within a part, records keep their order. The
    parts appear together. Some 24 bytes of memory a record are taken.

    Args:
        src: as for `recode`.
        dst: directory of the parts; there must be nothing yet, and it must not lie within `src`.
        parts: name -> its share: fractions that add up to 1, such as {"train": 0.9, "val": 0.1} (the remainder goes by largest
            remainder, so sizes add up to the number of records), numbers of records that add up to it, or indices as for `select` that
            name each record once.
        seed: 0 to 2^64 - 1, of the shuffle.
        shuffle: draw the records of a part at random. False: parts are stretches, in the order of `parts`.
        codec: as for `recode`.
        level: as for `recode`.
        dict_tier: as for `recode`; it is trained on the records of all parts, and is that of each.
        dict_bytes: as for `recode`.
        progress: as for `recode`.
        verify: as for `recode`.

    Returns:
        What became of it, with the number of records of each part.

    Raises:
        TypeError, ValueError: parts that do not fit, or name no directory.
        As `recode`.
    """
    asked = Encoding(codec, level, dict_tier, dict_bytes)
    check(asked)
    if not isinstance(parts, Mapping):
        raise TypeError(f"parts: expected a mapping of names to shares, found {type(parts).__name__}")
    checked_names(parts, "parts")
    with Origin(src) as origin:
        shares = shared_out(parts, len(origin), seed, shuffle)
        streams = {}
        for name, records in origin.streams.items():
            pieces = {part: Picked([Piece(records, index)]) for part, index in shares.items()}
            streams[name] = Stream(records, Picked([Piece(records)]), pieces)
        plan = Plan(streams, [origin.path], asked, verify, progress)
        counts = {part: index.size for part, index in shares.items()}
        return Rewritten(len(origin), counts, plan.carry_out(Path(dst)))
