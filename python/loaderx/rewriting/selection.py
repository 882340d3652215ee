"""Some records of a store as a store of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from loaderx.dataset.index import indices
from loaderx.progress import Progress
from loaderx.rewriting.encoding import Encoding, check
from loaderx.rewriting.origin import Origin, Source
from loaderx.rewriting.plan import Plan, Rewritten, one_store
from loaderx.zrecord import PathLike


def select(
    src: Source,
    dst: PathLike,
    index: Any,
    codec: str | None = None,
    *,
    level: int | None = None,
    dict_tier: str | None = None,
    dict_bytes: bytes | None = None,
    progress: Progress | bool | None = None,
    verify: bool = True,
) -> Rewritten:
    """Write the selected records, in the order of `index`, as a new store; of several streams the same records of each.

    The indices take 8 bytes of memory a record.

    Args:
        src: as for `recode`.
        dst: as for `recode`.
        index: as in `ds[index]`: a slice, a mask of one bool a record, or integers in any order, negative ones and duplicates included;
            one integer is a set of one. It may select nothing.
        codec: as for `recode`.
        level: as for `recode`.
        dict_tier: as for `recode`; it is trained on the selected records.
        dict_bytes: as for `recode`.
        progress: as for `recode`.
        verify: as for `recode`.

    Returns:
        What became of it.

    Raises:
        IndexError, TypeError: an index out of range, or none at all.
        As `recode`.
    """
    asked = Encoding(codec, level, dict_tier, dict_bytes)
    check(asked)
    with Origin(src) as origin:
        chosen = indices(index, len(origin))
        plan = Plan(one_store(origin, chosen), [origin.path], asked, verify, progress)
        return Rewritten(chosen.size, {}, plan.carry_out(Path(dst)))
