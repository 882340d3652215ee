"""What a converter reads: the streams that come of a source, and its records in parts.

A format is one module of `formats/`. It has a `Format`, and an `open` that makes a `Source` of files or of an object in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from loaderx.dataset.packed import Packed
from loaderx.dataset.schema import Shape

Array: TypeAlias = npt.NDArray[Any]
Values: TypeAlias = "Array | Packed | list[Array]"
"""Records of one stream: (n, *item_shape) for a dense one; for a ragged one a `Packed`, or a list of arrays."""

Block: TypeAlias = dict[str, Values]
"""Equally many neighbouring records of every stream."""

Part: TypeAlias = Callable[[], Block]
"""Reads one block. Parts are called by several threads at once, in any order."""

PART_BYTES = 8 << 20
"""About how many bytes a part holds; a single record, or what the source can't read in pieces, may be more."""

ITSELF = ""
"""The name of the stream of a source that has but one: the destination is then that store, not a directory of streams."""

TEXT = {"text": "utf-8"}
"""Metadata of a stream of bytes that are text."""

CLASSES = "classes"
"""Metadata of a stream of class numbers: the key of the list of their names."""


@dataclass(frozen=True)
class StreamSpec:
    """A stream as it will be written."""

    name: str
    kind: Literal["dense", "ragged"]
    dtype: np.dtype[Any]
    item_shape: Shape | None = None
    """The shape of each record of a dense stream."""
    origin: str = ""
    """What it is in the source, for whoever looks at a dry run: "column 'tokens': list<int32>"."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Keys for the stream's `schema.msgpack`."""


class Source(Protocol):
    """Records somewhere else."""

    @property
    def streams(self) -> Sequence[StreamSpec]:
        """All that it can give, in its order."""

    @property
    def files(self) -> Sequence[Path]:
        """The files that it reads; where one of them changes, a conversion doesn't go on. Empty for what is in memory.

        A source in memory says by its attribute `identity` what it is known by (`identity.py`). Where it has none, or that is None, a
        conversion that was cut never goes on: it could be with the records of another one.
        """

    @property
    def records(self) -> int | None:
        """The number of records; None where only reading everything tells."""

    def parts(self, start: int, names: Sequence[str]) -> Iterator[Part]:
        """The records from `start` on, in order, of the streams `names`. The iterator itself does little: parts do the work."""

    def close(self) -> None:
        """Let go of files."""


def refused_by(source: Source) -> Mapping[str, str]:
    """Name -> why, for what a source has beside its streams, and no stream can hold; from its attribute `refused`, which few have.

    Such a thing is an error only where it is asked for: by its name, or because everything is.
    """
    refused: Mapping[str, str] = getattr(source, "refused", {})
    return refused


@dataclass(frozen=True)
class Format:
    """A kind of files that can be converted."""

    name: str
    """What `format=` takes: "parquet"."""
    title: str
    """What it is called: "Apache Parquet"."""
    finds: Callable[[Path], Sequence[Path]]
    """The files of this format at a path (a file, or a directory that holds them), in order; none if it is something else.

    Tells by names and first bytes, and imports no package for it."""
    open: Callable[..., Source]
    """(files, **options) -> the source; `files` is what `finds` found, what the caller listed, or an object that `takes` took.

    Its keyword-only parameters are the options of `convert` for this format. One that reads much before it gives a source has a second
    parameter, `workers`: how many threads that may take."""
    needs: str | None = None
    """The package that must be installed, as pip calls it."""
    takes: Callable[[Any], bool] = lambda value: False
    """Whether it converts an object in memory, such as a `pyarrow.Table`. Imports nothing."""
