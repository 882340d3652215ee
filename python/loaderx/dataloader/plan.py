"""What to make of a step: which records, of which streams, and what of them. It pickles, so that worker processes have it too."""

from __future__ import annotations

import errno
import time
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from loaderx import _core
from loaderx.arguments import add_note
from loaderx.dataloader.selection import Selection
from loaderx.dataloader.sources import Indices, Ragged, Sources, Stream, native, read, row_bytes
from loaderx.dataloader.transforms import Transform
from loaderx.dataset.packed import Packed, assembled, listed
from loaderx.dataset.ragged import RaggedDataset
from loaderx.zrecord import StaleStoreError, ZrecordError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

RAN_OUT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Of descriptors, and of memory."""
SHOWN = 8
"""Records that a note on an error lists."""


class Made(NamedTuple):
    """What came of a step: a batch, or the error that came instead; and how long it took."""

    batch: Any
    error: BaseException | None
    gather_seconds: float = 0.0
    transform_seconds: float = 0.0
    of_step: bool = True
    """Whether the error is of the step, as far as whoever made it knows, and not of what carries it out."""

    @property
    def fails_always(self) -> bool:
        """Whether the step has an Exception that another run has, too: not one of a machine that ran out of something, or of a moment."""
        error = self.error
        if not self.of_step or not isinstance(error, Exception) or isinstance(error, (MemoryError, StaleStoreError)):
            return False
        return not isinstance(error, OSError) or error.errno not in RAN_OUT


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

    @property
    def expected_bytes(self) -> int | None:
        """The most bytes of a batch, where that is known before one is made: all streams are dense, and nothing else becomes of them."""
        rows = [row_bytes(self.sources.of(name)[0]) for name in self.sources.names]
        known = [size for size in rows if size is not None]
        if len(known) < len(rows) or not self.transform.is_identity:
            return None
        return self.selection.local_batch_size * sum(known)

    def make(self, step: int) -> Made:
        """For workers: what comes of `step`. Raises nothing: whatever it is, it is the consumer's."""
        try:
            gathered = self.gather.make(step)
        except BaseException as error:
            return Made(None, error)
        return self.finish(gathered)

    def finish(self, gathered: _core.Made) -> Made:
        """For workers: what comes of a step whose native part is done. Raises nothing."""
        try:
            return self.apply(gathered)
        except BaseException as error:
            return Made(None, error)

    def hand_over(self, gathered: _core.Made) -> Made:
        """For the consumer's own thread: as `finish`, but what a signal raises meanwhile is no error of the step."""
        if gathered.error is not None:
            return Made(None, self._noted(gathered.error, gathered))
        try:
            return self.apply(gathered)
        except (ZrecordError, MemoryError) as error:
            return Made(None, error)

    def apply(self, gathered: _core.Made) -> Made:
        """The batch of a step whose native part is done. Raises whatever goes wrong, with a note of where."""
        if gathered.error is not None:
            raise self._noted(gathered.error, gathered)
        started = time.perf_counter()
        values = dict(zip(self._native, gathered.streams, strict=True))
        batch = {}
        for name in self.sources.names:
            try:
                batch[name] = self._value(name, values.get(name), gathered.indices, gathered.sources)
            except BaseException as error:
                self._noted(error, gathered, name)
                raise
        read = time.perf_counter()
        try:
            made = batch if self.transform.is_identity else self.transform(batch, gathered.step)
        except BaseException as error:
            self._noted(error, gathered)
            raise
        return Made(made, None, gathered.gather_seconds + read - started, time.perf_counter() - read)

    def _noted(self, error: BaseException, gathered: _core.Made, stream: str | None = None) -> BaseException:
        """The error, with a note of where it happened."""
        if stream is None and gathered.stream is not None:
            stream = list(self._native)[gathered.stream]
        where = "" if stream is None else f", in stream {stream!r}"
        add_note(error, f"at step {gathered.step} of the DataLoader{where}, records [{self._shown(gathered)}]")
        return error

    def _shown(self, gathered: _core.Made) -> str:
        """The first records of a step; of which data set each is, where there are several."""
        indices = gathered.indices
        shown = [str(index) for index in indices[:SHOWN].tolist()]
        if gathered.sources is not None:
            labels = [self.sources.labels[number] for number in gathered.sources[:SHOWN].tolist()]
            shown = [f"{index} of {label!r}" for index, label in zip(shown, labels, strict=True)]
        return ", ".join(shown) + ("" if len(indices) <= SHOWN else f", ... ({len(indices)} in all)")

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

        make = assembled if self.ragged == "packed" else listed
        return make(*gathered, cast(RaggedDataset, streams[0]).dtype, where)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("sources", "selection", "transform", "ragged")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._find_readers()
