"""TFRecord files: records of bytes, or the features of the `tf.train.Example` that they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from loaderx._core import scan_examples
from loaderx.converters.ahead import processors
from loaderx.converters.finding import files_below, natural
from loaderx.converters.formats.examples import (
    Examples,
    Feature,
    Raw,
    Survey,
    check_options,
    given_features,
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
from loaderx.converters.source import ITSELF, Block, Format, Part

NAME = re.compile(r"\.tfrec(ords?)?(-[0-9]+-of-[0-9]+)?(\.(gz|gzip|zlib))?$", re.IGNORECASE)
NUMBERED = re.compile(r"-[0-9]+-of-[0-9]+$")


class TFRecords:
    """The records of files, one file after another."""

    def __init__(
        self,
        files: Sequence[Path],
        *,
        examples: bool | None = None,
        features: Mapping[str, Any] | None = None,
        nulls: Nulls = "refuse",
    ) -> None:
        check_options(examples, features, nulls)
        self.files = files
        self._how = [compression(file) for file in files]
        self._examples: Examples | None = None
        if features is None and (examples or (examples is None and holds_examples(files, self._how))):
            surveys = self._survey()
            self._stretches: list[list[Stretch] | None] = [found for found, _ in surveys]
            self._examples = Examples(merged(files, surveys), nulls, surveyed=True)
        else:
            self._stretches = [None if how else stretches(file) for file, how in zip(files, self._how, strict=True)]
            if features is not None:
                self._examples = Examples(given_features(features), nulls, surveyed=False)
        self.streams = streams_of(self._examples)

    def _survey(self) -> list[tuple[list[Stretch] | None, Survey]]:
        """Read all files once."""
        with ThreadPoolExecutor(processors(), thread_name_prefix="loaderx-convert") as pool:
            return list(pool.map(surveyed, self.files, self._how))

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


def surveyed(file: Path, how: str | None) -> tuple[list[Stretch], Survey]:
    """Where the records of a file lie, and which features they have."""
    survey, found = Survey(), []
    for frames in read_frames(file, how):
        try:
            survey.add(raw(file, frames))
        except ValueError as error:
            raise ValueError(f"{file}: {error}; examples=False takes records as they are") from error
        found.append(Stretch(frames.offset, frames.end, frames.first, len(frames.starts)))
    return found, survey


def merged(files: Sequence[Path], surveys: Sequence[tuple[Any, Survey]]) -> list[Feature]:
    """The features of all files. ValueError if there are none."""
    whole = Survey()
    for file, (_, survey) in zip(files, surveys, strict=True):
        whole.merge(survey.seen, survey.records, str(file))
    features = whole.features()
    if not features:
        raise ValueError(f"{files[0]}: its records have no features; examples=False takes them as they are")
    return features


def holds_examples(files: Sequence[Path], how: Sequence[str | None]) -> bool:
    """Whether the first records that have anything in them are Examples with features."""
    for file, each in zip(files, how, strict=True):
        for frames in read_frames(file, each):
            try:
                there = np.flatnonzero(frames.lengths)[:1]
                if len(there):
                    return bool(scan_examples(frames.buffer, frames.starts[there], frames.lengths[there], 0))
            except ValueError as error:
                if "SequenceExample" in str(error):
                    raise ValueError(f"{file}: {error}; examples=False takes records as they are") from error
                return False
            break
    return False


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
    return sorted(named, key=natural)


FORMAT = Format("tfrecord", "TFRecord", finds, TFRecords)
