"""TFRecord files: records of bytes, or the features of the `tf.train.Example` that they are."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from loaderx.converters.finding import files_below, natural
from loaderx.converters.formats.examples import (
    Feature,
    Raw,
    Survey,
    check_options,
    found_examples,
    streams_of,
)
from loaderx.converters.formats.frames import (
    HEADER,
    Frames,
    Stretch,
    compression,
    has_header,
    read_frames,
    stretch_at,
    stretches,
)
from loaderx.converters.formats.pieces import Nulls, gathered
from loaderx.converters.formats.ranges import Inflated, beginning, read_range
from loaderx.converters.formats.splits import one_split
from loaderx.converters.source import ITSELF, Block, Format, Part

NAME = re.compile(r"\.tfrec(ords?)?(-[0-9]+-of-[0-9]+)?(\.(gz|gzip|zlib))?$", re.IGNORECASE)
NUMBERED = re.compile(r"-[0-9]+-of-[0-9]+$")


class TFRecords:
    """The records of files, one file after another. A first pass over them is made by so many `workers`."""

    def __init__(
        self,
        files: Sequence[Path],
        workers: int = 1,
        *,
        examples: bool | None = None,
        features: Mapping[str, Any] | None = None,
        nulls: Nulls = "refuse",
    ) -> None:
        check_options(examples, features, nulls)
        self.files = files
        self._how = [compression(file) for file in files]
        self._workers = workers
        self._stretches: list[list[Stretch] | None] = []
        self._examples = found_examples(examples, features, nulls, self._first, self._survey)
        if not self._stretches:
            self._stretches = [None if how else stretches(file) for file, how in zip(files, self._how, strict=True)]
        self.streams = streams_of(self._examples)

    def _first(self) -> Iterator[Raw]:
        """The first records of each file."""
        for file, how in zip(self.files, self._how, strict=True):
            for frames in islice(read_frames(file, how), 1):
                yield raw(file, frames)

    def _survey(self) -> Survey:
        """Read all files once. Whatever ends it early, also Ctrl-C, ends the reading of each file at its next frames."""
        stopped = threading.Event()
        with ThreadPoolExecutor(self._workers, thread_name_prefix="loaderx-convert") as pool:
            try:
                found = list(pool.map(partial(surveyed, stopped), self.files, self._how))
            finally:
                stopped.set()
        self._stretches = [places for places, _ in found]
        whole = Survey(str(self.files[0]))
        for file, (_, survey) in zip(self.files, found, strict=True):
            whole.merge(survey.seen, survey.records, str(file))
        return whole

    @property
    def records(self) -> int | None:
        """The number of records; None where a first pass would have to find it."""
        counts = [None if found is None else sum(one.records for one in found) for found in self._stretches]
        return None if None in counts else sum(count for count in counts if count is not None)

    def parts(self, start: int, names: Sequence[str]) -> Iterator[Part]:
        """Neighbouring records of one file; what is compressed is inflated by the iterator."""
        wanted = [] if self._examples is None else self._examples.wanted(names)
        for file, how, found in zip(self.files, self._how, self._stretches, strict=True):
            build = partial(self._block, file, names, wanted)
            end = 0
            for reached, part in skipping(file, how, found, start):
                end = reached
                if part is not None:
                    yield partial(build, part)
            start = max(0, start - end)

    def _block(self, file: Path, names: Sequence[str], wanted: Sequence[Feature], part: Any) -> Block:
        frames: Frames = part()
        if self._examples is None:
            return {ITSELF: gathered(frames.buffer, frames.starts.astype(np.int64), frames.lengths.astype(np.int64))}
        return self._examples.read(raw(file, frames), names, wanted)

    def close(self) -> None:
        """Nothing is open between parts."""


def skipping(file: Path, how: str | None, found: list[Stretch] | None, start: int) -> Iterator[tuple[int, Any]]:
    """What reads each of the parts of a file from record `start` on, with how many records there are up to the end of it."""
    if found is None:
        for frames in read_frames(file, how):
            end = frames.first + len(frames.starts)
            yield end, None if end <= start else partial(frames.after, max(0, start - frames.first))
        return
    stream = Inflated(file, how) if how else None
    with closing(stream) if stream else nullcontext():
        for one in found:
            end = one.first + one.records
            if end <= start:
                yield end, None
                continue
            skip = max(0, start - one.first)
            if stream is None:
                yield end, partial(read_stretch, file, one, skip)
            else:
                stream.skip_to(one.offset)
                content = stream.exactly(one.end - one.offset)
                yield end, partial(lambda *given: stretch_at(*given[:3]).after(given[3]), file, one, content, skip)


def read_stretch(file: Path, stretch: Stretch, skip: int) -> Frames:
    """The records of a stretch without the first `skip`, read from the disk now."""
    content = read_range(file, stretch.offset, stretch.end - stretch.offset)
    return stretch_at(file, stretch, content).after(skip)


def raw(file: Path, frames: Frames) -> Raw:
    """Frames as records."""
    return Raw(frames.buffer, frames.starts, frames.lengths, frames.first, str(file))


def surveyed(stopped: threading.Event, file: Path, how: str | None) -> tuple[list[Stretch], Survey]:
    """Where the records of a file lie, and which features they have; of some only, once it is `stopped`."""
    survey = Survey(str(file))
    found: list[Stretch] = []
    for frames in read_frames(file, how):
        if stopped.is_set():
            break
        survey.add(raw(file, frames))
        found.append(Stretch(frames.offset, frames.end, frames.first, len(frames.starts)))
    return found, survey


def finds(path: Path) -> Sequence[Path]:
    """Files by name, or by a length with its checksum at their beginning."""
    if path.is_file():
        return [path] if NAME.search(path.name) or has_header(beginning(path, HEADER)) else []
    if not path.is_dir():
        return []
    files = list(files_below(path))
    named = [file for file in files if NAME.search(file.name)]
    if not named:
        named = [file for file in files if NUMBERED.search(file.name) and has_header(beginning(file, HEADER))]
    return one_split(path, sorted(named, key=natural))


FORMAT = Format("tfrecord", "TFRecord", finds, TFRecords)
