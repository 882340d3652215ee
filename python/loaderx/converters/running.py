"""The work of a conversion: blocks from the source, one after another, into the streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from loaderx.arguments import add_note
from loaderx.converters.ahead import ahead
from loaderx.converters.blocks import checked_length, first_difference
from loaderx.converters.encoding import Chosen, Encoding
from loaderx.converters.source import Block, Source
from loaderx.converters.writing import Written
from loaderx.progress import OpenProgress
from loaderx.zrecord import CorruptStoreError, ZrecordError


class Run:
    """One conversion, or what is left of it to do, in `directory`."""

    def __init__(
        self,
        source: Source,
        chosen: Chosen,
        encodings: Mapping[str, Encoding],
        directory: Path,
        workers: int,
        progress: OpenProgress | None,
        phases: int = 1,
    ) -> None:
        self._source, self._chosen, self._encodings = source, chosen, encodings
        self._directory, self._workers = directory, workers
        self._told = progress or (lambda done, total: None)
        self._phases = phases
        self._total = source.records

    def _progress(self, done: int) -> None:
        """Tell how many records were written and compared, of as many as that will be."""
        self._told(done, None if self._total is None else self._phases * self._total)

    def write(self) -> tuple[int, int]:
        """Write what is not there yet. How many records there are then, and how many there were before."""
        with Written(self._directory, self._chosen.specs, self._encodings) as written:
            resumed = len(written)
            self._progress(resumed)
            for start, block in self._blocks(resumed):
                try:
                    written.append(block)
                except (TypeError, ValueError) as error:
                    add_note(error, f"record 0 of this append is record {start} of the source")
                    raise
                self._progress(len(written))
            records = len(written)
        if self._total not in (None, records):
            raise ZrecordError(
                f"{self._directory}: the source said that it has {self._total} records, and gave {records}"
            )
        return records, resumed

    def compare(self) -> None:
        """Read all of both again. CorruptStoreError where they are not the same."""
        with Written(self._directory, self._chosen.specs, self._encodings) as written:
            end = 0
            for start, block in self._blocks(0):
                end = start + checked_length(block)
                stored = written.read(start, end)
                for name, values in block.items():
                    at = first_difference(values, stored[name])
                    if at is not None:
                        stream = f" of stream {name!r}" if name else ""
                        raise CorruptStoreError(
                            f"{self._directory}: record {start + at}{stream} is not what the source has now; the source was "
                            "changed meanwhile, or the disk or the memory is not to be trusted"
                        )
                self._progress(len(written) + end)
            if end != len(written):
                raise CorruptStoreError(f"{self._directory}: the source had {len(written)} records, and has {end} now")

    def _blocks(self, start: int) -> Iterator[tuple[int, Block]]:
        """All blocks from record `start` on, each with its first record's number."""
        names = list(dict.fromkeys(self._chosen.sources.values()))
        with closing(ahead(self._source.parts(start, names), self._workers)) as blocks:
            for block in blocks:
                renamed = self._chosen.renamed(block)
                count = checked_length(renamed)
                if count:
                    yield start, renamed
                start += count
