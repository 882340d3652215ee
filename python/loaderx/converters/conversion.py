"""What a conversion does, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loaderx.converters.encoding import Chosen, Encoding
from loaderx.converters.source import Format, Source, StreamSpec
from loaderx.dataset.dtypes import described


@dataclass(frozen=True)
class Conversion:
    """What is converted to what; `print` shows it."""

    format: str
    """The name of the source's format."""
    title: str
    """What that is called."""
    files: Sequence[Path]
    """The files that are read, in order; none for what is in memory."""
    path: Path
    """The destination."""
    streams: Sequence[StreamSpec]
    """What is written: streams by name, or one store, whose name is empty."""
    codecs: Mapping[str, str]
    """The codec of each."""
    records: int | None
    """How many there are. None in a dry run where only reading everything tells."""
    resumed: int
    """How many of them an earlier call had written."""

    @classmethod
    def planned(
        cls,
        form: Format,
        source: Source,
        path: Path,
        chosen: Chosen,
        encodings: Mapping[str, Encoding],
        resumed: int,
    ) -> Conversion:
        """What will be done."""
        codecs = {name: one.codec for name, one in encodings.items()}
        return cls(form.name, form.title, source.files, path, chosen.specs, codecs, source.records, resumed)

    def done(self, records: int, resumed: int) -> Conversion:
        """The same, once it is done."""
        return replace(self, records=records, resumed=resumed)

    def __str__(self) -> str:
        many = "as many records as there are" if self.records is None else f"{self.records:,} records"
        earlier = f", {self.resumed:,} of them written by an earlier call" if self.resumed else ""
        lines = [f"{self.title}, {self._where()}: {many}{earlier}"]
        for spec in self.streams:
            place = self.path / spec.name if spec.name else self.path
            shape = f"dense {spec.item_shape}" if spec.kind == "dense" else "ragged"
            origin = f", from {spec.origin}" if spec.origin else ""
            lines.append(f"  {place}: {shape} {described(spec.dtype)}, {self.codecs[spec.name]}{origin}")
        return "\n".join(lines)

    def _where(self) -> str:
        if len(self.files) > 1:
            return f"{len(self.files):,} files from {self.files[0]} to {self.files[-1]}"
        return str(self.files[0]) if self.files else "in memory"
