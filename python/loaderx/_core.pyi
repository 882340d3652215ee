"""The native core. Prefer the public names in `loaderx.zrecord` and `loaderx.sampler`."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypedDict, final, type_check_only

import numpy as np
import numpy.typing as npt

__version__: str
MAX_RECORD_LEN: int
ORDER_VERSION: int
MAX_RANK: int

@type_check_only
class Stats(TypedDict):
    records: int
    live_bytes: int
    chunk_bytes: int
    reclaimable: int

@type_check_only
class Mapping(TypedDict):
    mapped: int
    resident: int | None

@type_check_only
class BatchMemory(TypedDict):
    in_use: int
    kept: int

@type_check_only
class Report(TypedDict):
    records: int
    sound: int
    bytes: int
    sums_known: bool
    unfinished: bool
    torn: int
    damaged: npt.NDArray[np.uint64]
    problems: list[tuple[int | None, str]]
    problem_count: int

@type_check_only
class Repaired(TypedDict):
    found: Report
    dropped: npt.NDArray[np.uint64]
    header_restored: bool
    finished: bool
    torn: int
    sums_rebuilt: bool
    dictionary_noted: bool

class ZrecordError(RuntimeError):
    """Base of the errors that are about a store rather than about an argument."""

class CorruptStoreError(ZrecordError):
    """A file of the store is damaged, truncated or missing."""

class CorruptRecordError(ZrecordError):
    """A record's bytes do not match its checksum or do not decode."""

    path: str
    record: int
    chunk: int
    offset: int
    found: str
    expected: str

class StaleStoreError(ZrecordError):
    """The store was deleted from or compacted since this handle opened it."""

class StoreLockedError(ZrecordError):
    """Another handle holds the lock that this operation needs."""

class UnsupportedCodecError(ZrecordError):
    """Unknown codec, or a `zstd_dict` store without its dictionary."""

@final
class Store:
    """A store of byte records; see `loaderx.zrecord.Zrecord`."""

    @staticmethod
    def create(
        path: str | os.PathLike[str],
        codec: str = "zstd",
        level: int | None = None,
        schema: bytes | None = None,
        chunk_limit: int | None = None,
    ) -> Store:
        """Create a store in a directory that is missing or empty.

        FileExistsError if a store is there, ZrecordError if something else is.
        """
    @staticmethod
    def open(
        path: str | os.PathLike[str],
        codec: str | None = None,
        read_only: bool = False,
        verify: Literal["always", "once", "never"] = "always",
        io: Literal["auto", "mmap", "pread"] = "auto",
        chunk_limit: int | None = None,
    ) -> Store:
        """Open an existing store. FileNotFoundError if there is none, ValueError if `codec` is not its codec."""
    @staticmethod
    def exists(path: str | os.PathLike[str]) -> bool:
        """Whether `path` is a directory with a `meta.zr`."""

    path: str
    codec: str
    level: int | None
    generation: int
    sums_known: bool
    has_shapes: bool
    has_written: bool
    has_writer: bool
    closed: bool
    def __len__(self) -> int: ...
    def append(
        self,
        src: npt.NDArray[Any] | bytes,
        offsets: npt.NDArray[np.uint64],
        shapes: npt.NDArray[np.uint32] | None = None,
    ) -> int:
        """Records packed in the C-contiguous `src`: record i starts at byte offsets[i], the last ends at the end of `src`.

        `shapes` is as for `append_list`.
        """
    def append_rows(self, rows: npt.NDArray[Any]) -> int:
        """One record a row along axis 0 of a C-contiguous array."""
    def append_list(
        self, records: Sequence[npt.NDArray[Any] | bytes], shapes: npt.NDArray[np.uint32] | None = None
    ) -> int:
        """One record an element (C-contiguous arrays, bytes). `shapes`: (n, 8) rows of the `.shape` file; None: all one-dimensional."""
    def gather(self, idxs: npt.NDArray[np.uint64], dst: npt.NDArray[Any], offsets: npt.NDArray[np.uint64]) -> None:
        """Record idxs[i] into the C-contiguous `dst` at byte offsets[i]. Ranges must not overlap."""
    def gather_rows(self, idxs: npt.NDArray[np.uint64], dst: npt.NDArray[Any]) -> None:
        """Record idxs[i] into row i of the C-contiguous `dst`; each record must be exactly one row long."""
    def gather_packed(
        self, idxs: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.uint32] | None]:
        """The records one after another, n + 1 byte offsets, and (n, 8) rows of the `.shape` file if there is one; all of one moment."""
    def gather_items(
        self, index: object, dtype: np.dtype[Any]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64], npt.NDArray[np.uint32] | None] | None:
        """As `gather_packed`, in items: an array of `dtype`, n + 1 offsets of items, and rows, None where none says anything.

        None if `index` is no C-contiguous int64 or uint64 array of shape (n,) within 0..len, or the records are not all of whole items.
        """
    def lengths(self, idxs: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
        """Logical bytes of each record."""
    def forms(self, idxs: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32] | None]:
        """What `lengths` and `shapes` give, of one moment; None where the store keeps no shapes. No record is read."""
    def shapes(self, idxs: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
        """(n, 8) rows of the `.shape` file; zeros where the store has none."""
    def adopt_shapes(self, shapes: npt.NDArray[np.uint32], schema: bytes) -> None:
        """Give a store that keeps its shapes elsewhere a `.shape` table: (len, 8) rows, and the schema that goes with it."""
    def delete(self, idxs: npt.NDArray[np.uint64]) -> None: ...
    def compact(self) -> None: ...
    def stats(self) -> Stats: ...
    def mapping(self) -> Mapping:
        """The bytes of files that the handle has mapped, and of those that are resident."""
    def unmap(self) -> None:
        """Unmap the files; whoever reads next maps them again. Views keep theirs."""
    def begin_write(self) -> int:
        """Become the store's writer before there is something to write; returns the length, which only this handle can change then."""
    def hold(self, what: str = "hold") -> int:
        """Become the writer, and keep every other handle off the store until `release` or `close`; returns the length."""
    def release(self) -> None:
        """Let others open the store again after `hold`."""
    def limit(self, length: int) -> int:
        """See no more than the first `length` records until the next refresh; returns how many are seen."""
    def sync(self) -> None: ...
    def refresh(self) -> int: ...
    def has_dict(self) -> bool: ...
    def install_dict(self, dict_bytes: bytes) -> int: ...
    def close(self) -> None: ...

@final
class Rows:
    """The records of a store, all of one dtype and shape, as rows of new arrays."""

    def __new__(cls, store: Store, dtype: np.dtype[Any], item_shape: Sequence[int]) -> Rows: ...
    def take(self, index: object) -> npt.NDArray[Any] | None:
        """Shape (n, *item_shape). None if `index` is no C-contiguous int64 or uint64 array of shape (n,) within 0..len."""
    def fill(self, index: object, out: npt.NDArray[Any]) -> bool:
        """As `take`, into the rows of `out`; False where `take` gives None."""
    def view(self, start: int, stop: int) -> npt.NDArray[Any]:
        """The records from `start` to `stop` as a read-only array on the store's own file, shape (n, *item_shape).

        IndexError, ValueError (no such view), StoreLockedError, CorruptRecordError.
        """
    def record(self, index: int) -> npt.NDArray[Any]:
        """Record `index`, shape item_shape. IndexError if there is none."""

@final
class Frames:
    """Decodes records that lie in another container than a store. From any number of threads, each call on its own thread."""

    def __new__(cls, codec: str, dictionary: bytes | None = None) -> Frames:
        """`dictionary`: for "zstd_dict" only. ValueError for what is none."""
    def decode(
        self,
        src: npt.NDArray[Any] | bytes,
        starts: npt.NDArray[np.uint64],
        ends: npt.NDArray[np.uint64],
        dst: npt.NDArray[Any],
        offsets: npt.NDArray[np.uint64],
        first: int = 0,
    ) -> None:
        """Record i, stored in the bytes starts[i] to ends[i] of `src`, into the bytes offsets[i] to offsets[i + 1] of the C-contiguous `dst`.

        ValueError if ranges don't lie in them; ZrecordError, which names the record as `first` + i, for one that does not decode to just so
        many bytes.
        """

@final
class TarWalk:
    """Finds the files of a tar archive by its headers, as samples: neighbours whose names are alike up to the first dot."""

    def __new__(cls, named: list[tuple[bytes, bool]], last: list[bytes]) -> TarWalk:
        """Which files are arrays in NumPy's format: `named` says so of extensions, `last` has what ends others after their last dot."""
    def wanted(self) -> tuple[int, int]:
        """Where in the archive it goes on, and how many bytes it needs from there on at least, 2 MiB at most."""
    def feed(self, content: npt.NDArray[Any] | bytes, base: int) -> None:
        """Go on as far as `content` suffices, whose first byte is byte `base` of the archive. ValueError for a damaged archive."""
    def finish(self, length: int) -> None:
        """The archive ends at byte `length`: ValueError if it is cut."""
    def fresh_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of arrays that were met first since the last call: name of the file, its first bytes. They are numbered from 0 on."""
    def samples(
        self,
    ) -> tuple[
        bytes,
        npt.NDArray[np.int64],
        list[
            tuple[
                bytes,
                npt.NDArray[np.int64],
                npt.NDArray[np.int64],
                npt.NDArray[np.int64],
                npt.NDArray[np.int64],
            ]
        ],
    ]:
        """What was found, once: all samples' names, where each ends in them, and for each extension (in lower case): sample numbers of its files,
        where each begins, how many bytes it has, the number of its array header or -1."""

def split(
    array: npt.NDArray[Any], places: npt.NDArray[np.int64], rows: npt.NDArray[np.uint32] | None = None
) -> list[npt.NDArray[Any]]:
    """The parts of a C-contiguous array of shape (n,) between neighbouring `places`, as views of it.

    They have the shapes that the `rows` of a `.shape` file state, (n, 8); None: one dimension. ValueError where one doesn't fit.
    """

def fits(rows: npt.NDArray[np.uint32], places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether each record can have the shape that its row states; record i has places[i + 1] - places[i] items."""

def shapes(rows: npt.NDArray[np.uint32], places: npt.NDArray[np.int64]) -> list[tuple[int, ...]]:
    """The shapes that rows state for records as in `fits`. ValueError where one doesn't fit."""

def shape_rows(
    shapes: Iterable[Sequence[int]], what: str, places: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.uint32] | None:
    """The (n, 8) rows of shapes, tuples or lists; None if all are one-dimensional. With `places` each must be that of its record.

    TypeError for what is no shape, ValueError for one that has no row or doesn't fit; they begin with `what` and the record's number.
    """

def ready(
    records: Iterable[Any], dtype: np.dtype[Any], convert: Callable[[Any, int], npt.NDArray[Any]]
) -> tuple[list[npt.NDArray[Any]], npt.NDArray[np.uint32] | None]:
    """The records as C-contiguous arrays of `dtype`, and the rows of their shapes, None if all are one-dimensional.

    `convert(record, i)` makes such an array of whatever is none, or raises.
    """

def pack(
    records: Iterator[Any],
    dtype: np.dtype[Any],
    convert: Callable[[Any, int], npt.NDArray[Any]],
    first: int,
    limit: int,
    overhead: int,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64], npt.NDArray[np.uint32] | None]:
    """The next records of an iterator, copied: their bytes, the byte where each begins, rows as in `ready`.

    It ends with the iterator, or where the bytes and `overhead` of these a record come to `limit`. The first record is number `first`.
    """

def pad_packed(
    src: npt.NDArray[Any] | bytes,
    offsets: npt.NDArray[np.uint64],
    dense: npt.NDArray[Any],
    fill: bytes,
    left: bool,
) -> None:
    """The records packed in `src`, as for `Store.append`, into rows of the C-contiguous `dense`, the rest of which is `fill` again and again."""

def pad_list(records: Sequence[npt.NDArray[Any] | bytes], dense: npt.NDArray[Any], fill: bytes, left: bool) -> None:
    """As `pad_packed`, of records as for `Store.append_list`."""

def tfrecord_walk(
    content: npt.NDArray[Any] | bytes, base: int, data: bool
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], int, int]:
    """The TFRecords whose frames begin in `content`, the first at its first byte: (where data begins, its lengths, end, wanted).

    `data`: a record must be complete, and its checksum is checked; False: its header will do. `end`: where the first other frame
    begins, perhaps beyond `content`; `wanted`: how many bytes that takes, 0 if unknown. `base`: where `content` lies in its file, for
    messages. ValueError for a wrong checksum.
    """

def scan_examples(
    content: npt.NDArray[Any] | bytes,
    starts: npt.NDArray[np.uint64],
    lengths: npt.NDArray[np.uint64],
    base: int,
) -> list[tuple[bytes, str | None, int, int, int, int]]:
    """The features of the tf.train.Examples in `content`: (name, kind, records that have it, fewest values, most values, first record).

    Record i is called base + i. The kind is "bytes", "float" or "int64"; None where no record has a list. ValueError for what is no Example.
    """

def parse_examples(
    content: npt.NDArray[Any] | bytes,
    starts: npt.NDArray[np.uint64],
    lengths: npt.NDArray[np.uint64],
    base: int,
    wanted: Sequence[tuple[bytes, str]],
) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[Any], npt.NDArray[np.int64] | None]]:
    """Of each feature (name, kind): how many values each record has, -1 where it has none; all values; for bytes the length of each value.

    ValueError for what is no Example, or a feature of another kind.
    """

def build_dict(samples: npt.NDArray[Any] | bytes, sizes: npt.NDArray[np.uint64], target: int) -> bytes:
    """Train a zstd dictionary of at most `target` bytes from concatenated samples."""

def empty(shape: Sequence[int], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A writable, C-contiguous array of unspecified content that owns its memory; that of large ones is used again when the last view is gone."""

def batch_memory() -> BatchMemory:
    """What the batches of this process hold in blocks of 64 KiB and more: bytes in use, and kept for the next ones."""

def verify(path: str | os.PathLike[str], progress: Callable[[int, int], object] | None = None) -> Report:
    """Read and check everything in a store; `progress(done, total)` is called now and then, in records."""

def repair(
    path: str | os.PathLike[str],
    drop_damaged: bool = False,
    rebuild_sums: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Repaired:
    """Mend a store that nobody else has open. Damaged records go only with `drop_damaged`."""

def read_small_file(path: str | os.PathLike[str]) -> bytes: ...
def replace_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a small file durably: temporary name, sync, rename, sync of the directory."""

@final
class Sampler:
    """Index batches as a pure function of (seed, step); see `loaderx.sampler.Sampler`."""

    def __new__(cls, length: int, batch_size: int, mode: int, seed: int = 42) -> Sampler: ...
    length: int
    batch_size: int
    mode: int
    seed: int
    step: int
    def next(self) -> npt.NDArray[np.uint64]: ...
    def batch_at(self, step: int) -> npt.NDArray[np.uint64]:
        """The batch of a step, wherever the sampler stands."""
    def seek(self, step: int) -> None: ...
    def next_draw(self, index: int, step: int) -> tuple[int, int] | None:
        """(step, place in the batch) of the first draw of `index` at or after `step`; None for iid, where it is not known without drawing."""

@final
class Draws:
    """Which records a step reads, for one rank. A pure function of the step.

    A rank has the places floor(B * rank / W) to floor(B * (rank + 1) / W) of the batch. A table (uint64) has the records that indices stand for;
    it is copied.
    """

    @staticmethod
    def sampled(
        length: int,
        batch_size: int,
        mode: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        table: npt.NDArray[np.uint64] | None = None,
    ) -> Draws:
        """The batches of `Sampler(length, batch_size, mode, seed)`; a table has `length` entries."""
    @staticmethod
    def weighted(
        weights: npt.NDArray[np.float64],
        batch_size: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        table: npt.NDArray[np.uint64] | None = None,
    ) -> Draws:
        """In proportion to `weights`, one a record, or one an entry of the table."""
    @staticmethod
    def mixed(
        lengths: Sequence[int],
        batch_size: int,
        mode: int,
        seed: int,
        schedule: Sequence[tuple[int, Sequence[float]]],
        exact: bool = False,
        rank: int = 0,
        world_size: int = 1,
        tables: Sequence[npt.NDArray[np.uint64] | None] | None = None,
    ) -> Draws:
        """From several components by share. `schedule`: (step, a share for each component from there on), the first for step 0.

        With `exact` each batch has the same number of records of a component.
        """
    @staticmethod
    def bucketed(
        buckets: Sequence[tuple[int, int]],
        mode: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        table: npt.NDArray[np.uint64] | None = None,
    ) -> Draws:
        """Batches that are each of one bucket. `buckets`: (records, batch size), the first has the indices from 0 on. Not for iid order."""

    count: int
    """Records of a step; the most of any step, where batches differ in size."""
    def places(self, step: int) -> tuple[int, int]:
        """The places of the batch of a step that are this rank's: the first, and the one behind the last."""
    def bucket_at(self, step: int) -> int:
        """The bucket of the batch of a step, from 0 on; 0 where there are none."""
    def draw(self, step: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32] | None]:
        """The records of a step; and the component of each, None where there is but one. ValueError past 2**63 - 1."""

@final
class Gather:
    """What the steps are made of: which records, and of which streams."""

    def __new__(cls, draws: Draws, streams: Sequence[Sequence[Rows | Store]]) -> Gather:
        """`streams` has a list for each stream: a `Rows` (dense) or a `Store` (packed) for each component that is drawn from.

        ValueError if these don't fit each other.
        """
    def make(self, step: int) -> Made:
        """What comes of a step, made now and on this thread."""

@final
class Pipeline:
    """Steps that are made ahead by threads, which never touch the interpreter. In a forked child it counts as stopped."""

    def __new__(
        cls,
        gather: Gather,
        first_step: int,
        workers: int,
        ahead: int,
        bytes: int,  # noqa: A002 - the binding's name for it
    ) -> Pipeline:
        """Steps from `first_step` on.

        At most `ahead` steps, and `bytes` of memory, are begun or ready and not taken; one always may be. Of the threads, no more than
        `ahead` are started. RuntimeError if none can be.
        """
    def take(self, step: int | None, timeout: float | None = None) -> Made | None:
        """Wait for a step, or (None) for the lowest that is ready or else the first that will be; None once the pipeline is stopped.

        TimeoutError after `timeout` seconds; ValueError for a step that was taken before, or that there is none of. Signals are seen to.
        """
    def forget(self, step: int) -> None:
        """Let go of all steps below `step`: those that are ready are freed, and none of them is begun any more."""
    def stop(self) -> None:
        """Begin nothing more. Never waits, and may be called from anywhere, any number of times."""
    def join(self, seconds: float) -> bool:
        """Wait for the threads to end, which they do once stopped; False if they haven't after `seconds`."""

    ready: int

@final
class Made:
    """What came of a step. An error is here, not raised; `streams` is then empty."""

    step: int
    streams: list[Any]
    """One a stream. Dense: shape (n, *item_shape), writable, its memory its own, at a multiple of 64 bytes. Packed: as `Store.gather_packed`, writable."""
    indices: npt.NDArray[np.uint64]
    sources: npt.NDArray[np.uint32] | None
    gather_seconds: float
    error: BaseException | None
    stream: int | None
    """The number of the stream that failed, if it was one."""
