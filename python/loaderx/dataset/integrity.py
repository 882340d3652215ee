"""Checking and mending whole stores: `verify` reads everything and changes nothing, `repair` makes a store whole again."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from loaderx import _core
from loaderx.dataset import header
from loaderx.dataset import schema as schemas
from loaderx.dataset.packed import offsets_of
from loaderx.dataset.ragged import RaggedDataset
from loaderx.dataset.shapes import listed_fit
from loaderx.older import refuse_older
from loaderx.progress import Progress, telling
from loaderx.zrecord import CorruptStoreError, PathLike, StaleStoreError, Zrecord, ZrecordError

if TYPE_CHECKING:
    from loaderx.dataset.schema import Schema

BLOCK = 1 << 16
KEPT = 100
CHECKING = ("checking",)


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong."""

    message: str
    record: int | None = None
    """The record that it is about, None where it is about a file."""

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Report:
    """What a store is like. `ok` is the short answer, `str(report)` the one for people."""

    path: Path
    records: int
    """Records that the store holds."""
    sound: int
    """Of these, the ones whose table entries and bytes are right, as far as can be told."""
    bytes: int
    """Stored bytes that were read."""
    sums_known: bool
    """Whether every record, and the dictionary if there is one, has a checksum; where loaderx 1.x wrote, `repair` makes them."""
    unfinished: bool
    """A delete or compact was cut short: `repair`, or opening to write, finishes it. Records are not looked at before."""
    torn: int
    """Appended records that no sync covered and a crash left in part: no part of the store, and dropped by the next writer."""
    damaged: npt.NDArray[np.uint64]
    """Indices of the damaged records, ascending."""
    problems: tuple[Problem, ...] = field(repr=False)
    """What is wrong; at most about a hundred are kept word for word."""
    problem_count: int
    """How many problems there are."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong. Unknown checksums and torn appends are not."""
        return self.problem_count == 0

    def __str__(self) -> str:
        state = "sound" if self.ok else f"{self.problem_count:,} problem{'s' if self.problem_count > 1 else ''}"
        lines = [f"{self.path}: {state}; {self.sound:,} of {self.records:,} records right, {self.bytes:,} bytes read"]
        if self.records and not self.sums_known:
            lines.append(
                "  checksums are unknown (loaderx 1.x changed the store, or making them was interrupted); repair makes them"
            )
        if self.torn:
            lines.append(
                f"  {self.torn:,} torn records behind the last sync are not counted; the next writer drops them"
            )
        lines += [f"  {problem}" for problem in self.problems[:10]]
        if self.problem_count > 10:
            lines.append(f"  and {self.problem_count - 10:,} more")
        return "\n".join(lines)


@dataclass(frozen=True)
class Repaired:
    """What a repair found and did; `str(repaired)` tells it to people."""

    found: Report
    """What was found, after everything but the records was mended."""
    dropped: npt.NDArray[np.uint64]
    """The records that were cut out, by the indices that they had, ascending."""
    header_restored: bool
    """`meta.zr` was lost, and was made anew from the last sync and what was appended since."""
    finished: bool
    """A delete or compact that had been cut short was finished."""
    torn: int
    """So many appended records that a crash had left in part were dropped."""
    sums_rebuilt: bool
    """Checksums were made."""
    dictionary_noted: bool
    """The checksum of the dictionary, which nothing told any more, was made from the one that is there."""

    def __str__(self) -> str:
        done = {
            "restored the header": self.header_restored,
            "finished a delete or compact": self.finished,
            f"dropped {self.torn:,} torn records": self.torn,
            "made checksums": self.sums_rebuilt,
            "noted the checksum of the dictionary": self.dictionary_noted,
            f"cut out {self.dropped.size:,} damaged records": self.dropped.size,
        }
        left = self.found.damaged.size - self.dropped.size
        lines = [name for name, was_done in done.items() if was_done]
        if not lines:
            lines.append("nothing was to be done" if self.found.ok else "nothing was mended")
        if left:
            lines.append(f"{left:,} damaged records stay; drop_damaged=True cuts them out (see MSDataset for streams)")
            if any(".sum" in problem.message for problem in self.found.problems):
                lines.append("a checksum table is damaged: rebuild_sums=True takes the bytes as they are")
        others = self.found.problem_count - self.found.damaged.size
        if others > 0:
            lines.append(f"of {others:,} problems that are not those of records, verify tells which are left")
        return f"{self.found.path}: {'; '.join(lines)}"


def verify(path: PathLike, *, progress: Progress | bool | None = None) -> Report:
    """Read and check everything in a store, dense, ragged or of plain byte records. Nothing is changed.

    Checked are the header and its copies, the dictionary, the schema, every row of the tables (within the store, of a length and shape
    that fit the schema), that no two records share bytes, and the bytes of each record against its checksum, decoded too if
    compressed. Others may read and append meanwhile. Takes about 200 MiB of memory; Ctrl-C ends it.

    Args:
        path: directory of the store; for several streams see `MSDataset.verify`.
        progress: called with (records done, records in all) now and then; what it raises ends the check. True: a line on stderr that
            tells it.

    Raises:
        FileNotFoundError, ZrecordError: there is no store.
        StoreLockedError: somebody deletes from it or compacts it just now.
        OSError: it may not be read.
    """
    path = Path(path)
    with telling(progress, CHECKING) as tell:
        refuse_older(path)
        found = _core.verify(path, tell)
    report = as_report(path, found)
    if (path / schemas.FILE).exists():
        report = with_schema_checked(report)
    return report


def repair(
    path: PathLike,
    *,
    drop_damaged: bool = False,
    rebuild_sums: bool = False,
    alone: bool = False,
    progress: Progress | bool | None = None,
) -> Repaired:
    """Make a store whole again; nobody else may have it open.

    What loses nothing is always done: a delete or compact that was cut short is finished, an append that a crash tore is dropped, a lost
    header is made anew, and checksums that loaderx 1.x left unknown are made. It can be interrupted, or killed, and run again.

    Args:
        path: directory of the store; for several streams see `MSDataset.repair`.
        drop_damaged: cut out the records that are damaged. As in a delete, records from the end take their indices. Not for a stream of
            several: see `MSDataset.drop_damaged`.
        rebuild_sums: take all bytes as they are and make all checksums anew: for when the checksums are what is damaged.
        alone: drop even where the store looks like one of several streams: it has a neighbour of as many records.
        progress: as for `verify`.

    Raises:
        ValueError: records were to be dropped from what looks like a stream of several.
        As `verify`, and StoreLockedError if another handle has the store open. A damaged dictionary can't be mended.
    """
    path = Path(path)
    with telling(progress, CHECKING) as tell:
        refuse_older(path)
        if drop_damaged:
            if not alone:
                refuse_a_stream(path)
            adopt_listed_shapes(path)
        done = _core.repair(path, drop_damaged, rebuild_sums, tell)
    return Repaired(
        found=as_report(path, done["found"]),
        dropped=done["dropped"],
        header_restored=done["header_restored"],
        finished=done["finished"],
        torn=done["torn"],
        sums_rebuilt=done["sums_rebuilt"],
        dictionary_noted=done["dictionary_noted"],
    )


def refuse_a_stream(path: Path) -> None:
    """ValueError if a neighbour has as many records: dropping some here would part the others from theirs."""
    directory = path.absolute().parent
    try:
        length = length_of(path)
        alike = [child.name for child in directory.iterdir() if child.name != path.name and length_of(child) == length]
    except (OSError, ZrecordError):
        return  # what can't be looked at is no reason to refuse
    if alike and length:
        raise ValueError(
            f"{path}: its neighbours {alike} have as many records, so it may be one of several streams. "
            "MSDataset.drop_damaged drops from all of them; alone=True drops from this store alone"
        )


def length_of(path: Path) -> int | None:
    """The number of records that the header of a dataset states; None where there is no dataset."""
    if not (path / schemas.FILE).is_file():
        return None
    try:
        with (path / header.FILE).open("rb") as file:
            return header.length_in(file.read(header.PLAIN.size))
    except OSError:
        return None


def adopt_listed_shapes(path: Path) -> None:
    """In a ragged store of loaderx 1.x the schema lists shapes by index; they must be moved with the records."""
    try:
        listed = schema_of(path).shapes is not None
    except ZrecordError:
        return  # plain byte records, or a schema whose damage is not the records'
    if listed:
        with RaggedDataset(path) as ds:
            ds._adopt_listed_shapes()


def as_report(path: Path, found: _core.Report) -> Report:
    """The core's findings."""
    problems = tuple(Problem(message, record) for record, message in found["problems"])
    return Report(
        path=path,
        records=found["records"],
        sound=found["sound"],
        bytes=found["bytes"],
        sums_known=found["sums_known"],
        unfinished=found["unfinished"],
        torn=found["torn"],
        damaged=found["damaged"],
        problems=problems,
        problem_count=found["problem_count"],
    )


def with_schema_checked(report: Report) -> Report:
    """The report, and what of the store is not as its schema says."""
    misfits = Misfits()
    try:
        schema = schema_of(report.path)
        if report.unfinished or (not report.ok and not report.records):
            return report  # it does not open
        misfits.look(report, schema)
    except CorruptStoreError as error:
        misfits.add(str(error))
    kept = report.problems + tuple(misfits.kept[: max(0, KEPT - len(report.problems))])
    return replace(report, problems=kept, problem_count=report.problem_count + misfits.count)


def schema_of(path: Path) -> Schema:
    """The schema, also where the package of its dtype is missing, or the dtype's name: how wide an item is can be told without."""
    try:
        return schemas.read(path)
    except (ImportError, ZrecordError):
        return schemas.read(path, opaque=True)


class Misfits:
    """Where the sound records are not what the schema says: how many, and the first hundred."""

    def __init__(self) -> None:
        self.count = 0
        self.kept: list[Problem] = []

    def add(self, message: str, record: int | None = None) -> None:
        """Note one."""
        self.count += 1
        if len(self.kept) < KEPT:
            self.kept.append(Problem(message, record))

    def look(self, report: Report, schema: Schema) -> None:
        """Compare every record's length and shape. StaleStoreError if records were deleted since the report."""
        with Zrecord(report.path, read_only=True) as store:
            if len(store) < report.records:
                raise StaleStoreError(f"{report.path}: records were deleted while it was checked; check it again")
            if store.codec != schema.codec:
                self.add(f"{schemas.FILE}: expected codec {store.codec!r}, found {schema.codec!r}")
            if schema.shapes is not None and len(schema.shapes) != len(store):
                self.add(f"{schemas.FILE}: expected {len(store)} shapes, found {len(schema.shapes)}")
                return
            for start in range(0, report.records, BLOCK):
                idxs = np.arange(start, min(start + BLOCK, report.records), dtype=np.uint64)
                idxs = np.setdiff1d(idxs, report.damaged, assume_unique=True)
                for record in idxs[~fits_schema(store, schema, idxs)].tolist():
                    self.add(f"record {record}: its length or shape does not fit the schema", record)


def fits_schema(store: Zrecord, schema: Schema, idxs: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Which of the records have the length, and if ragged the shape, that the schema lets them have."""
    lengths = store.lengths(idxs).astype(np.int64)
    if schema.kind == "dense":
        assert schema.item_shape is not None
        return np.equal(lengths, schema.dtype.itemsize * math.prod(schema.item_shape))
    items, remainders = np.divmod(lengths, schema.dtype.itemsize)
    fits: npt.NDArray[np.bool_] = remainders == 0
    if schema.shapes is not None:
        fits &= listed_fit((schema.shapes[i] for i in idxs.tolist()), items)
    elif store.has_shapes:
        fits &= _core.fits(store.shapes(idxs), offsets_of(items))
    return fits
