"""What to make of a step: which records, of which streams, and what of them. It pickles, so that worker processes have it too."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from loaderx import _core
from loaderx.arguments import add_note
from loaderx.dataloader.selection import Selection
from loaderx.dataloader.sources import Indices, Ragged, Sources, Stream, native, read
from loaderx.dataloader.transforms import Transform
from loaderx.dataset.packed import Packed, assembled
from loaderx.dataset.ragged import RaggedDataset
from loaderx.dataset.shapes import split

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SHOWN = 8
"""Records that a note on an error lists."""


class Made(NamedTuple):
    """What came of a step: a batch, or the error that came instead; and how long it took."""

    batch: Any
    error: BaseException | None
    gather_seconds: float = 0.0
    transform_seconds: float = 0.0


class Plan:
    """What to make of a step."""

    def __init__(self, sources: Sources, selection: Selection, transform: Transform, ragged: Ragged) -> None:
        self.sources, self.selection, self.transform, self.ragged = sources, selection, transform, ragged
        self._find_readers()

    def _find_readers(self) -> None:
        readers = {name: native(self.sources.of(name)) for name in self.sources.names}
        self._native = {name: found for name, found in readers.items() if found is not None}
        self.is_native = len(self._native) == len(readers)
        """Whether all streams are read without Python."""
        self.gather = _core.Gather(self.selection.core, list(self._native.values()))
        """The native part of a step."""

    def make(self, step: int) -> Made:
        """What comes of `step`. Raises nothing: whatever it is, it is the consumer's."""
        return self.finish(self.gather.make(step))

    def finish(self, gathered: _core.Made) -> Made:
        """What comes of a step whose native part is done. Raises nothing."""
        step, indices = gathered.step, gathered.indices
        names = list(self._native)
        if gathered.error is not None:
            name = None if gathered.stream is None else names[gathered.stream]
            return Made(None, noted(gathered.error, step, name, indices))
        started = time.perf_counter()
        name = None
        try:
            values = dict(zip(names, gathered.streams, strict=True))
            batch = {}
            for name in self.sources.names:
                batch[name] = self._value(name, values.get(name), indices, gathered.sources)
            name = None
            read = time.perf_counter()
            made = batch if self.transform.is_identity else self.transform(batch, step)
        except BaseException as error:
            return Made(None, noted(error, step, name, indices))
        return Made(made, None, gathered.gather_seconds + read - started, time.perf_counter() - read)

    def _value(self, name: str, value: Any, indices: Indices, sources: npt.NDArray[np.uint32] | None) -> Any:
        """The part of a batch that is called `name`; `value` is what the native gather gave, None if it has no such stream."""
        if value is None:
            return read(self.sources.of(name), self.ragged, indices, sources)
        if isinstance(value, tuple):
            return self._ragged(self.sources.of(name), value, indices, sources)
        return value

    def _ragged(
        self,
        streams: list[Stream],
        gathered: tuple[Any, Any, Any],
        indices: Indices,
        sources: npt.NDArray[np.uint32] | None,
    ) -> Packed | list[npt.NDArray[Any]]:
        """The records that the native gather packed."""

        def where(at: int) -> str:
            stream = streams[0 if sources is None else sources[at]]
            return f"{cast(RaggedDataset, stream).path}: record {indices[at]}"

        packed = assembled(*gathered, cast(RaggedDataset, streams[0]).dtype, where)
        return packed if self.ragged == "packed" else split(*packed)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("sources", "selection", "transform", "ragged")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._find_readers()


def noted(error: BaseException, step: int, stream: str | None, indices: Indices) -> BaseException:
    """The error, with a note of where it happened."""
    shown = ", ".join(map(str, indices[:SHOWN].tolist()))
    more = "" if len(indices) <= SHOWN else f", ... ({len(indices)} in all)"
    where = "" if stream is None else f", in stream {stream!r}"
    add_note(error, f"at step {step} of the DataLoader{where}, records [{shown}{more}]")
    return error
