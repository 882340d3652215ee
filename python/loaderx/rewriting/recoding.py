"""A store written anew with another codec, level or dictionary."""

from __future__ import annotations

from pathlib import Path

from loaderx.progress import Progress
from loaderx.rewriting.encoding import Encoding, check
from loaderx.rewriting.origin import Origin, Source
from loaderx.rewriting.plan import Plan, Rewritten, one_store
from loaderx.zrecord import PathLike


def recode(
    src: Source,
    dst: PathLike,
    codec: str | None = None,
    *,
    level: int | None = None,
    dict_tier: str | None = None,
    dict_bytes: bytes | None = None,
    progress: Progress | bool | None = None,
    verify: bool = True,
) -> Rewritten:
    """Write a store anew, with all its records in their order, and another codec, level or dictionary.

    The source is only read, checked record by record. While it is, nobody can delete from it or compact it, and what is appended is not
    looked at. `dst` appears when all is done; if that fails, nothing is left, and if the process is killed, a directory
    `.DST.unfinished-...` beside it. Memory is bounded (about 100 MiB, or four times the largest record).

    Dtype, item shape, shapes and your own keys of the schema stay. Gaps that deletions left are not copied.

    Args:
        src: directory of a dense or ragged store, of one of plain byte records, or of several streams (all are written); or a dataset,
            which stands for its directory.
        dst: directory of the new store; there must be nothing yet, and it must not lie within `src`.
        codec: "raw", "zstd" or "zstd_dict". None: that of the source.
        level: zstd level. None: that of the source if the codec is, else 3 for "zstd" and 19 for "zstd_dict".
        dict_tier: train a new dictionary of this tier ("fast", "balanced", "max") for "zstd_dict". None: that of the source stays, and
            if it has none, one of the tier "balanced" is trained.
        dict_bytes: the dictionary for "zstd_dict"; one store only.
        progress: called with (done, total) now and then; a record counts when it was written and, with `verify`, when compared. Each
            stream's records count. True: a line on stderr that tells it.
        verify: read both again in the end, and compare them.

    Returns:
        What became of it; where a dictionary was trained, also what it gains.

    Raises:
        FileExistsError: there is something at `dst`.
        FileNotFoundError: there is no store at `src`.
        StoreLockedError: somebody is deleting from the source or compacting it.
        ValueError: arguments that do not fit, or streams of unequal length.
        ZrecordError: the source is damaged; the message names the record. Or no dictionary can be trained.
    """
    asked = Encoding(codec, level, dict_tier, dict_bytes)
    check(asked)
    with Origin(src) as origin:
        plan = Plan(one_store(origin), [origin.path], asked, verify, progress)
        return Rewritten(len(origin), {}, plan.carry_out(Path(dst)))
