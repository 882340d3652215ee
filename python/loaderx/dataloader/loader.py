"""The public loader."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal, NoReturn

from loaderx.arguments import integer
from loaderx.closing import Closing
from loaderx.dataloader.plan import Plan, Stream
from loaderx.dataloader.processes import Processes, checked_start_method
from loaderx.dataloader.state import state_of, step_from
from loaderx.dataloader.threads import Pipeline, PipelineStopped
from loaderx.dataset import MSDataset
from loaderx.sampler import Sampler


def identity(batch: dict[str, Any]) -> dict[str, Any]:
    """The transform that changes nothing."""
    return batch


class DataLoader(Closing):
    """An endless iterator of batches; a step is a pure function of (seed, step), so resuming is `seek`.

    Batch s holds every stream at the indices of step s: `{name: values}`, an array (batch_size, *item_shape) for a dense stream, a list
    of arrays for a ragged one, and then whatever `transform` makes of it. Batches come in the order of the steps, for every number of
    workers. They are made ahead in threads that start with the first `next()`; at most `num_workers + prefetch_size` batches are begun
    or ready at a time.

    An exception in a read or in `transform` is raised by `next()` at its step, as the same object; the batches before it come first.
    The loader stays there: `next()` raises it again, until `seek` tries that step again or passes over it. (A StopIteration would end
    the consumer's loop as if all were well; it comes as the cause of a RuntimeError.)

    `close()`, `with`, the end of the last reference and the end of the program all stop the threads; a thread that is inside a
    transform is waited for half a second and then left to end on its own. After `close()`, `next()` raises StopIteration. In a forked
    child a loader starts threads of its own and goes on at its step. Several threads may call `next()`: each batch goes to one of them.

    Args:
        streams: name -> dataset, all of one length; or an MSDataset. Anything with `__len__` and `__getitems__` is a stream.
        num_workers: threads, at least 1. Each gathers and transforms whole batches.
        batch_size: records a step, at least 1.
        prefetch_size: batches made ahead of those that the workers have in hand, at least 1.
        mode: `Sampler.Mode` or its number: 0 sequential, 1 iid, 2 cyclic.
        seed: 0 to 2^64 - 1.
        transform: batch -> batch, called on a worker thread; several calls run at once.
        step: the first step.
        timeout: seconds after which `next()` gives up (TimeoutError) on a batch; the next call waits for it again. None: never.
        worker_type: "thread", or "process" for a transform that is Python code: each worker is then a process that opens the streams
            itself and makes every num_workers-th step. Streams and transform must pickle. Arrays are handed over in shared memory: they are
            writable and C-contiguous, and the memory is used again when the last array of a batch is gone.
        start_method: how processes start: "forkserver" or "spawn". None: the first of these that there is. A script needs
            `if __name__ == "__main__":` either way.

    Raises:
        TypeError: an argument of another type.
        ValueError: no streams, streams of unequal length or none, numbers out of bounds, a cyclic batch larger than the length.
    """

    def __init__(
        self,
        streams: Mapping[str, Stream] | MSDataset,
        num_workers: int = 4,
        batch_size: int = 256,
        prefetch_size: int = 4,
        mode: int = Sampler.Mode.CYCLIC,
        seed: int = 42,
        transform: Callable[[dict[str, Any]], Any] = identity,
        *,
        step: int = 0,
        timeout: float | None = None,
        worker_type: Literal["thread", "process"] = "thread",
        start_method: str | None = None,
    ) -> None:
        self._streams = checked_streams(streams)
        self._workers = integer(num_workers, "num_workers", minimum=1)
        self._ahead = integer(prefetch_size, "prefetch_size", minimum=1)
        if not callable(transform):
            raise TypeError(f"transform: expected a callable, found {transform!r}")
        self._timeout = checked_timeout(timeout)
        self._in_processes = checked_worker_type(worker_type) == "process"
        self._start_method = checked_start_method(start_method)
        self._sampler = Sampler(common_length(self._streams), batch_size, mode, seed)
        self._plan = Plan(self._streams, self._sampler, transform)
        self._turn = threading.Lock()
        self._process = os.getpid()
        self._pipeline: Pipeline | Processes | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._failure: tuple[BaseException, TracebackType | None] | None = None
        self._closed = False
        self._step = self._checked_step(step)

    @property
    def step(self) -> int:
        """The step that `next()` gives next; what was made ahead does not count."""
        return self._step

    @property
    def length(self) -> int:
        """Records of each stream, as of the loader's construction."""
        return self._sampler.length

    @property
    def batch_size(self) -> int:
        """Records a step."""
        return self._sampler.batch_size

    @property
    def mode(self) -> Sampler.Mode:
        """The order."""
        return self._sampler.mode

    @property
    def seed(self) -> int:
        """The seed."""
        return self._sampler.seed

    @property
    def streams(self) -> dict[str, Stream]:
        """Name -> dataset."""
        return dict(self._streams)

    @property
    def closed(self) -> bool:
        """Whether `close()` was called."""
        return self._closed

    def __iter__(self) -> DataLoader:
        return self

    def __next__(self) -> Any:
        if self._process != os.getpid():
            self._wake_in_child()
        with self._turn:
            if self._closed:
                raise StopIteration
            if self._failure is not None:
                self._raise_failure()
            pipeline = self._running()
            step = self._step
            try:
                made = pipeline.wait(step, self._timeout)
            except PipelineStopped:
                raise StopIteration from None
            if made.error is not None:
                self._failure = made.error, made.error.__traceback__
                del made  # the error's traceback will hold this frame
                self._stop()
                self._raise_failure()
            self._step = step + 1
            pipeline.release(step)
            return made.batch

    def _running(self) -> Pipeline | Processes:
        if self._pipeline is None:
            pipeline: Pipeline | Processes
            if self._in_processes:
                pipeline = Processes(self._plan, self._step, self._workers, self._ahead, self._start_method)
            else:
                pipeline = Pipeline(self._plan, self._step, self._workers, self._ahead)
            finalizer = weakref.finalize(self, pipeline.stop)
            finalizer.atexit = False  # the pipelines see to that themselves
            pipeline.start()
            self._pipeline, self._finalizer = pipeline, finalizer
            if self._closed:  # by another thread, just now
                self._stop()
            return pipeline
        return self._pipeline

    def _raise_failure(self) -> NoReturn:
        assert self._failure is not None
        error, traceback = self._failure
        if isinstance(error, StopIteration):
            raise RuntimeError(f"step {self._step}: StopIteration was raised while the batch was made") from error
        raise error.with_traceback(traceback)

    def _stop(self) -> Pipeline | Processes | None:
        """Let the workers end; what they made is dropped."""
        pipeline, self._pipeline = self._pipeline, None
        if self._finalizer is not None:
            self._finalizer.detach()
            self._finalizer = None
        if pipeline is not None:
            pipeline.stop()
        return pipeline

    def _wake_in_child(self) -> None:
        """After a fork: the threads are the parent's, and so is whoever held the lock."""
        self._turn = threading.Lock()
        self._stop()
        self._process = os.getpid()

    def _checked_step(self, step: int) -> int:
        step = integer(step, "step")
        self._sampler.seek(step)
        return step

    def seek(self, step: int) -> None:
        """Let `step`, counted from 0, be the next one. Costs the same for every step."""
        step = self._checked_step(step)
        if self._process != os.getpid():
            self._wake_in_child()
        with self._turn:
            if step != self._step or self._failure is not None:
                self._stop()
                self._failure = None
                self._step = step

    def state_dict(self) -> dict[str, int]:
        """What `load_state_dict` needs to go on exactly here: a few plain numbers, fit for JSON."""
        return state_of(self._sampler, self._step)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken.

        Raises:
            TypeError: no mapping, or a value that is no integer.
            ValueError: fields unknown or missing, or one (seed, mode, batch_size, length, ...) that is not this loader's.
        """
        self.seek(step_from(state, self._sampler))

    def close(self) -> None:
        """Stop the threads and drop what they made. Closing twice is fine."""
        self._closed = True
        pipeline = self._stop()
        self._failure = None
        if pipeline is not None:
            pipeline.join()

    def __len__(self) -> int:
        raise TypeError(
            "a DataLoader never ends, so it has no length; itertools.islice(loader, n) is a loop of n steps, "
            "loader.length the number of records"
        )

    def __bool__(self) -> bool:
        return True  # without this, truth would ask for the length

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"step={self._step}"
        return (
            f"DataLoader(streams={list(self._streams)}, length={self.length}, batch_size={self.batch_size}, "
            f"mode={self.mode.name}, seed={self.seed}, {state})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "a DataLoader does not pickle: pickle its datasets and its state_dict(), and make a new one of them"
        )


def checked_streams(streams: Mapping[str, Stream] | MSDataset) -> dict[str, Stream]:
    """The streams as a dict. TypeError for what is no stream."""
    if isinstance(streams, MSDataset):
        return dict(streams.streams)
    if not isinstance(streams, Mapping):
        raise TypeError(f"streams: expected a mapping of names to datasets, found {type(streams).__name__}")
    for name, stream in streams.items():
        if not (hasattr(stream, "__len__") and hasattr(stream, "__getitems__")):
            raise TypeError(f"streams: {name!r}: expected a dataset, found {type(stream).__name__}")
    return dict(streams)


def common_length(streams: Mapping[str, Stream]) -> int:
    """The length that all streams have. ValueError if there is none."""
    lengths = {name: len(stream) for name, stream in streams.items()}
    if not lengths:
        raise ValueError("streams: expected at least one stream, found none")
    if len(set(lengths.values())) != 1:
        raise ValueError(f"streams: expected equally many records in each, found {lengths}")
    length = next(iter(lengths.values()))
    if length == 0:
        raise ValueError(f"streams: expected at least one record, found {lengths}")
    return length


def checked_timeout(timeout: float | None) -> float | None:
    """Seconds, or None. TypeError and ValueError for the rest."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout: expected seconds or None, found {timeout!r}")
    if not 0 < timeout <= threading.TIMEOUT_MAX:
        raise ValueError(
            f"timeout: expected more than 0 and at most {threading.TIMEOUT_MAX:.0f} seconds, found {timeout}"
        )
    return float(timeout)


def checked_worker_type(worker_type: str) -> str:
    """Which kind of worker. ValueError for none of them."""
    if worker_type not in ("thread", "process"):
        raise ValueError(f"worker_type: expected 'thread' or 'process', found {worker_type!r}")
    return worker_type
