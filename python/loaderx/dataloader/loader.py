"""The public loader."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal

from loaderx.arguments import integer
from loaderx.closing import Closing
from loaderx.dataloader import arguments
from loaderx.dataloader.buckets import Buckets
from loaderx.dataloader.errors import BatchTimeoutError
from loaderx.dataloader.facts import Facts
from loaderx.dataloader.mixture import Mixture
from loaderx.dataloader.pipeline import JOIN_SECONDS, Options, Pipeline, PipelineStopped, WorkerType
from loaderx.dataloader.plan import Made, Plan
from loaderx.dataloader.ranks import checked_ranks
from loaderx.dataloader.selection import MAX_STEP, batch_sizes_of, select
from loaderx.dataloader.sources import Ragged, Stream, sources_of
from loaderx.dataloader.start import pipeline_for
from loaderx.dataloader.state import Position, frame_of, generations_of, position_from, state_of
from loaderx.dataloader.stats import Counts, Stats
from loaderx.dataloader.take import Take
from loaderx.dataloader.transforms import Transform, identity
from loaderx.dataset import MSDataset

MOST_SKIPPED = 1000
"""Steps that may be skipped one after another: when none works, passing over all of them would be a hang."""
MEMORY = 1 << 30
"""Bytes that batches made ahead may take where nothing is said."""
MOST_AHEAD = 1 << 16
"""Workers, and batches made ahead: numbers above are mistakes."""

MOST_SEEN = 32
"""Steps that may be given out of turn, with `ordered=False`, while an earlier one is missing."""


class DataLoader(Facts, Closing):
    """An endless iterator of batches; a step is a pure function of (seed, step), so resuming is `seek`.

    Batch s holds every stream at the indices of step s: `{name: values}`, an array (batch_size, *item_shape) for a dense stream, a list
    of arrays or a `Packed` for a ragged one, and then whatever `transform` makes of it. Batches come in the order of the steps, for every
    number and type of workers. They are made ahead by workers that start with the first `next()`: without a transform by native threads
    that never hold the interpreter's lock, at most `prefetch_size` at a time. With one, by Python threads, at most
    `num_workers + prefetch_size` begun or ready, behind native threads that have up to `num_workers` more gathered; or by processes that
    gather for themselves, at most `num_workers + prefetch_size` begun or ready.

    Arrays are writable, C-contiguous and the consumer's own. Those of dense streams, and the values of packed ones, begin at multiples of
    64 bytes. Those of ragged streams are views (the records in a list lie one after another in one array), and so is all that worker
    processes give, in shared memory: `owndata` is False then, and a `resize` to another size fails.

    An exception in a read or in `transform` is raised by `next()` at its step, as the same object, with notes of step, stream and records;
    the batches before it come first. The loader stays there: `next()` raises it again, until `seek` tries that step again or passes over
    it. (A StopIteration would end the consumer's loop as if all were well; it comes as the cause of a RuntimeError.)

    `close()`, `with`, the end of the last reference and the end of the program all stop the workers; a thread that is inside a
    transform is waited for half a second and then left to end on its own. After `close()`, `next()` raises StopIteration. In a forked
    child a loader starts workers of its own and goes on at its step. Several threads may call `next()`: each batch goes to one of them.

    Ranks: the batch of a step is one for all, of `batch_size` records. Rank r of W gets the places [floor(B r / W), floor(B (r + 1) / W))
    of it, so that the parts in the order of the ranks are the batch, whatever W is, and a state that any rank saved resumes all
    ranks of any other world.

    Args:
        streams: name -> dataset, all of one length; or an MSDataset; or a `Mixture` of several such. Anything with `__len__` and
            `__getitems__` (uint64 indices, shape (n,) -> n records) is a stream; several threads call it at once.
        num_workers: threads or processes, at least 1. Each makes whole batches.
        batch_size: records a step, of all ranks together, at least 1. None: 256, or what `buckets` say.
        prefetch_size: batches made ahead, at least 1.
        mode: `Sampler.Mode` or its number: 0 sequential, 1 iid, 2 cyclic. None: cyclic, or iid where there are weights.
        seed: 0 to 2^64 - 1.
        transform: batch -> batch, called on a worker; several calls run at once. If it has a parameter `rng`, it gets a
            `numpy.random.Generator` that is a function of seed, step and the rank's first place.
        step: the first step.
        timeout: seconds after which `next()` gives up (TimeoutError) on a batch, and on other threads that are in `next()`; the next call
            waits for it again. None: never.
        rank, world_size: whose part of each batch this is. None: what torch.distributed or JAX says where it is initialised, else 0 of 1.
        uneven: let the ranks' parts differ by one record, where the world doesn't divide the batch.
        indices: the records to draw from (all index forms of datasets; order and repetitions count): a split, a filter. None: all.
        weights: how often each record (or entry of `indices`) is drawn beside the others, shape (n,): draws with replacement.
        buckets: batches of records of like length, of several sizes. Not with weights, indices (`Buckets` takes those) or a mixture.
        ragged: "list": a ragged stream gives a list of arrays; "packed": a `Packed`.
        worker_type: "thread", or "process" for transforms that hold the interpreter's lock: worker processes gather and transform, and
            hand arrays over in shared memory. Streams and transform must pickle.
        start_method: how worker processes begin: "forkserver" or "spawn". None: "forkserver" where there is one.
        ordered: whether batches come in the order of the steps. False: as they are ready, each once; the state then lists the steps that
            were given out of turn, which is why it is for a world of one rank.
        on_error: "raise", or "skip" to pass over steps that raise an Exception, counted in `stats()`. Which they are is a function of
            the steps alone, so what is no fault of a step is raised all the same: MemoryError, no descriptor left, a worker process that
            died or can't begin or hand over, data that changed. Each rank passes over its own. When a thousand steps fail one after
            another, that is raised.
        prefetch_bytes: the most memory that batches made ahead may take, each taken to be as large as the largest so far; one always may.
            Where the size of the first can't be known before (ragged streams, streams of yours, a transform), nothing is begun beside it.
            None: 1 GiB, and each worker begins at once.

    Raises:
        TypeError: an argument of another type.
        ValueError: no streams, streams of unequal length or none, numbers out of bounds, a cyclic batch larger than what is drawn from, a
            world that doesn't divide the batch.
        IndexError: `indices` beyond the data.
    """

    def __init__(
        self,
        streams: Mapping[str, Stream] | MSDataset | Mixture,
        num_workers: int = 4,
        batch_size: int | None = None,
        prefetch_size: int = 4,
        mode: int | None = None,
        seed: int = 42,
        transform: Callable[..., Any] = identity,
        *,
        step: int = 0,
        timeout: float | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        uneven: bool = False,
        indices: Any = None,
        weights: Any = None,
        buckets: Buckets | None = None,
        ragged: Ragged = "list",
        worker_type: WorkerType = "thread",
        start_method: str | None = None,
        ordered: bool = True,
        on_error: Literal["raise", "skip"] = "raise",
        prefetch_bytes: int | None = None,
    ) -> None:
        self._options = Options(
            integer(num_workers, "num_workers", minimum=1, maximum=MOST_AHEAD),
            integer(prefetch_size, "prefetch_size", minimum=1, maximum=MOST_AHEAD),
            MEMORY if prefetch_bytes is None else integer(prefetch_bytes, "prefetch_bytes", minimum=1),
            arguments.choice(worker_type, "worker_type", ("thread", "process")),
            arguments.start_method(start_method),
            prefetch_bytes is not None,
        )
        self._timeout = arguments.timeout(timeout)
        self._ordered = arguments.flag(ordered, "ordered")
        self._skips_errors = arguments.choice(on_error, "on_error", ("raise", "skip")) == "skip"
        seed = integer(seed, "seed")
        self._streams = streams
        sources = self._sources = sources_of(streams)
        mixture = streams if isinstance(streams, Mixture) else None
        sizes = batch_sizes_of(batch_size, buckets, mixture)
        remedy = "" if buckets is None else "Buckets(multiple_of=...) makes all sizes multiples of a number, "
        ranks = checked_ranks(rank, world_size, sizes, arguments.flag(uneven, "uneven"), remedy)
        if not self._ordered and ranks.world_size > 1:
            raise ValueError(
                f"ordered: expected True in a world of {ranks.world_size}, where a state is every rank's, found False"
            )
        self._selection = select(sources, mixture, max(sizes), mode, seed, ranks, indices, weights, buckets)
        made_of = Transform(transform, seed, self._selection.first_place)
        self._plan = Plan(sources, self._selection, made_of, arguments.choice(ragged, "ragged", ("list", "packed")))
        self._frame = frame_of(sources, self._selection)
        self._turn = threading.RLock()
        self._busy = False
        self._process = os.getpid()
        self._pipeline: Pipeline | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._failure: tuple[BaseException, TracebackType | None] | None = None
        self._closed = False
        self._position = Position(integer(step, "step", maximum=MAX_STEP))
        self._counts = Counts()

    @property
    def step(self) -> int:
        """The first step that `next()` has not given; what was made ahead does not count."""
        return self._position.step

    @property
    def closed(self) -> bool:
        """Whether `close()` was called."""
        return self._closed

    def __iter__(self) -> DataLoader:
        return self

    def __next__(self) -> Any:
        if self._process != os.getpid():
            self._wake_in_child()
        if self._timeout is not None:
            return self._next_within(self._timeout)
        # A lock of C, taken by `with`: what a signal's handler raises can't come between the two.
        with self._turn:
            return self._next_alone(None)

    def _next_within(self, seconds: float) -> Any:
        """The next batch, where all waiting is bounded: for other threads too."""
        turn, deadline = self._turn, time.monotonic() + seconds
        try:
            # Taken in here and let go of below in any case: nothing that a signal's handler raises leaves it taken.
            if not turn.acquire(timeout=seconds):
                raise self._late()
            return self._next_alone(deadline)
        finally:
            try:  # noqa: SIM105 - an interrupt could come between, in `suppress`
                turn.release()
            except RuntimeError:  # it was never ours
                pass

    def _next_alone(self, deadline: float | None) -> Any:
        """The next batch, while no other thread is in here."""
        self._refuse_reentry()
        try:
            self._busy = True
            return self._given(deadline)
        finally:
            self._busy = False

    def _refuse_reentry(self) -> None:
        """RuntimeError for a handler that interrupted its own thread inside: it can't wait for that, and must not change it."""
        if self._busy:
            raise RuntimeError(
                "a loader was used by a signal's handler while its own thread was inside next() or seek()"
            )

    def _given(self, deadline: float | None) -> Any:
        """The next batch. It counts as given if this returns, and only then."""
        # `close()` takes no lock: what it may take away is looked at once.
        failure = None if self._closed else self._failure
        if failure is None:
            before, skipped = self._position, self._counts.skipped
            try:
                made = self._next_made(deadline)
                if made.error is None:
                    return self._counts.delivered(made)
            except (StopIteration, BatchTimeoutError):
                raise
            except BaseException:
                # A signal's handler raised it.
                self._stop()
                self._position, self._counts.skipped = before, skipped
                raise
            failure = self._failure = made.error, made.error.__traceback__
            del made
            self._stop()
            if self._closed:  # by another thread, just now
                self._failure = None
        try:
            raise self._as_raised(*failure)
        finally:
            del failure  # the error's traceback holds this frame

    def _next_made(self, deadline: float | None) -> Made:
        """What came of the next step that is not passed over. It counts as given from here on, unless it failed."""
        for _ in range(MOST_SKIPPED):
            step, made = self._next_result(deadline)
            if made.error is None:
                self._pass(step)
                return made
            if not (self._skips_errors and made.fails_always):
                return made
            self._counts.skipped += 1
            self._pass(step)
        too_many = RuntimeError(f"step {self.step}: the last {MOST_SKIPPED} steps failed, and none is skipped any more")
        too_many.__cause__ = made.error
        return Made(None, too_many)

    def _next_result(self, deadline: float | None) -> tuple[int, Made]:
        """The next step that was not given yet, and what came of it."""
        while True:
            if self._closed:
                raise StopIteration
            pipeline = self._running()
            started = time.perf_counter()
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                # Not too far beyond a step that takes long: the state lists what was given before it.
                if self._ordered or len(self._position.seen) >= MOST_SEEN:
                    step, made = self.step, pipeline.wait(self.step, left)
                else:
                    step, made = pipeline.wait_any(left)
            except PipelineStopped:
                raise StopIteration from None
            except BatchTimeoutError:
                raise self._late() from None
            self._counts.wait_seconds += time.perf_counter() - started
            if not self._position.has(step):  # else it was given before the state was saved
                return step, made
            pipeline.release(step)

    def _pass(self, step: int) -> None:
        """Count `step` as given."""
        self._position = self._position.past(step)
        pipeline = self._pipeline
        if pipeline is not None:
            pipeline.release(step)

    def _late(self) -> BatchTimeoutError:
        """The error of a wait that took too long."""
        where = f"step {self.step}" if self._ordered else f"from step {self.step} on"
        return BatchTimeoutError(f"{where}: no batch within {self._timeout} s")

    def _running(self) -> Pipeline:
        pipeline = self._pipeline
        if pipeline is None:
            pipeline = pipeline_for(self._plan, self.step, self._options)
            pipeline.start()
            finalizer = weakref.finalize(self, pipeline.stop)
            finalizer.atexit = False  # the pipelines see to that themselves
            self._pipeline, self._finalizer = pipeline, finalizer
            if self._closed:  # by another thread, just now
                self._stop()
        return pipeline

    def _as_raised(self, error: BaseException, traceback: TracebackType | None) -> BaseException:
        """A failure, each time as the first time."""
        if isinstance(error, StopIteration):
            ended = RuntimeError(f"step {self.step}: StopIteration was raised while the batch was made")
            ended.__cause__ = error
            return ended
        return error.with_traceback(traceback)

    def _stop(self) -> Pipeline | None:
        """Let the workers end; what they made is dropped."""
        pipeline, self._pipeline = self._pipeline, None
        finalizer, self._finalizer = self._finalizer, None
        if finalizer is not None:
            finalizer.detach()
        if pipeline is not None:
            pipeline.stop()
        return pipeline

    def _wake_in_child(self) -> None:
        """After a fork: the workers are the parent's, and so is whoever held the lock."""
        self._turn, self._busy = threading.RLock(), False
        self._stop()
        self._process = os.getpid()

    def seek(self, step: int) -> None:
        """Let `step`, counted from 0, be the next one. Costs the same for every step; a `next()` of another thread is waited for."""
        step = integer(step, "step", maximum=MAX_STEP)
        # To the step where it stands: what was given out of turn stays given.
        here = self._position
        self._go_to(here if step == here.step else Position(step))

    def _go_to(self, position: Position) -> None:
        if self._process != os.getpid():
            self._wake_in_child()
        with self._turn:
            self._refuse_reentry()
            try:
                self._busy = True
                if position != self._position or self._failure is not None:
                    self._stop()
                    self._failure = None
                    self._position = position
            finally:
                self._busy = False

    def batch_at(self, step: int) -> Any:
        """The batch of any step, wherever the loader stands, made now and by the caller. Raises what making it raises."""
        plan = self._plan
        return plan.apply(plan.gather.make(integer(step, "step", maximum=MAX_STEP))).batch

    def take(self, count: int) -> Take:
        """The next `count` batches, as an iterator that has a length: for loops of so many steps, and for progress bars."""
        return Take(self, integer(count, "count", maximum=sys.maxsize))

    def stats(self) -> Stats:
        """What was counted since the loader was made: where the time goes."""
        pipeline = self._pipeline
        return self._counts.stats(*((0, 0) if pipeline is None else (pipeline.ready, pipeline.shared_bytes)))

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on exactly here: plain numbers and names, fit for JSON, the same on every rank."""
        return state_of(self._frame_now(), self._position)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken, in another process, on another rank or in another world too. Costs the same for every step; a
        `next()` of another thread is waited for.

        Raises:
            TypeError: no mapping, or a value of another type.
            ValueError: fields unknown or missing, or one (seed, mode, batch_size, the data's fingerprint, ...) that is not this loader's.
                Where the data has changed on purpose, `seek(state["step"])` goes on regardless.
        """
        self._go_to(position_from(state, self._frame_now()))

    def _frame_now(self) -> dict[str, Any]:
        """All of a state but where it stands. Records may be moved while the loader lives, so that is looked up."""
        fingerprint = dict(self._frame["fingerprint"])
        with contextlib.suppress(ValueError):  # a dataset is closed: then it is as it was
            fingerprint["generation"] = generations_of(self._plan.sources)
        return self._frame | {"fingerprint": fingerprint}

    def close(self) -> None:
        """Stop the workers and drop what they made. Closing twice is fine."""
        self._closed = True
        pipeline = self._stop()
        self._failure = None
        if pipeline is not None:
            pipeline.join(JOIN_SECONDS)
