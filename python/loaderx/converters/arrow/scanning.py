"""Batches of a dataset of pyarrow, of which few are in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from loaderx.converters.source import PART_BYTES

SAMPLE = 64
"""Rows that tell about how long others are, where their types don't."""
MOST = 1 << 17
"""Rows of a batch, at most."""
MOST_VARYING = 1 << 10
"""The same where rows vary in length: later ones may be much longer than the sample."""
AHEAD = {"batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
"""What Arrow reads before it is asked for. With threads of its own it is up to 1 GiB more, whatever is said of batches and fragments."""


def batches_of(dataset: Any, columns: Sequence[str]) -> Iterator[Any]:
    """All rows in order, in tables of about PART_BYTES; a row group that is larger is in memory as a whole."""
    import pyarrow as pa

    waiting: list[Any] = []
    size = 0
    scan = scan_of(dataset, columns, batch_size(dataset, columns))
    for batch in scan.to_batches():
        if size + batch.nbytes > PART_BYTES and waiting:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
        waiting.append(batch)
        size += batch.nbytes
    if waiting:
        yield pa.Table.from_batches(waiting)


def batch_size(dataset: Any, columns: Sequence[str]) -> int:
    """How many rows are read at once, so that they are no more than a part."""
    widths = [width_of(dataset.schema.field(name).type) for name in columns]
    if None not in widths:
        return rows_of(sum(filter(None, widths)) / 8, MOST)
    sample = scan_of(dataset, columns, SAMPLE).head(SAMPLE)
    return rows_of(sample.nbytes / max(1, sample.num_rows), MOST_VARYING)


def scan_of(dataset: Any, columns: Sequence[str], rows: int) -> Any:
    """A scan of some columns, in batches of at most so many rows."""
    return dataset.scanner(columns=list(columns), batch_size=rows, fragment_scan_options=options_of(dataset), **AHEAD)


def options_of(dataset: Any) -> Any:
    """For Parquet on this machine's disks: a row group is read when its turn comes. Else a whole file is in memory before its first row.

    None, which is the dataset's own, for those of other file systems, where few large reads are worth it, and where the caller set some.
    """
    import pyarrow.dataset as pads
    import pyarrow.fs as fs

    form: Any = getattr(dataset, "format", None)
    if not isinstance(getattr(dataset, "filesystem", None), fs.LocalFileSystem) or form.default_extname != "parquet":
        return None
    own = form.default_fragment_scan_options
    return pads.ParquetFragmentScanOptions(pre_buffer=False) if own == pads.ParquetFragmentScanOptions() else None


def rows_of(size: float, most: int) -> int:
    """How many rows of `size` bytes make a part."""
    return int(max(1, min(most, PART_BYTES // max(1, size))))


def width_of(kind: Any) -> int | None:
    """Bits of a value, where all are equally long."""
    import pyarrow.types as is_

    if is_.is_fixed_size_list(kind):
        inner = width_of(kind.value_type)
        return None if inner is None else inner * kind.list_size
    if is_.is_struct(kind):
        widths = [width_of(field.type) for field in kind]
        return None if None in widths else sum(filter(None, widths))
    if hasattr(kind, "storage_type"):
        return width_of(kind.storage_type)
    if is_.is_dictionary(kind) or is_.is_nested(kind):
        return None
    try:
        width: int = kind.bit_width
    except ValueError:
        return None
    return width
