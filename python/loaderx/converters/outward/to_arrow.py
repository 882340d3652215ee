"""Streams as an Arrow table, or as batches of one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loaderx.converters.arrow.notes import KEY, note
from loaderx.converters.outward.arrow_types import Column
from loaderx.converters.outward.reading import batches, package, streams_of
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from loaderx.dataset.streams import Stream


def to_arrow(
    ds: DenseDataset | RaggedDataset | MSDataset, columns: Sequence[str] | None = None, *, reader: bool = False
) -> Any:
    """Streams as columns of an Arrow table; that of a single store is called "value".

    Dense records are scalars or fixed-size lists; ragged ones lists, those of bytes binary, those of text strings. NaT is null, inside of
    records too. A dtype that Arrow doesn't have (complex, structured, text of fixed width, bfloat16, ...) becomes binary values of its
    width. The schema's metadata says what each stream was, so that `convert` makes the same of it again.

    Args:
        ds: a store, or several streams.
        columns: the streams wanted, in this order. None: all.
        reader: give a `pyarrow.RecordBatchReader` instead of a `pyarrow.Table` of everything. It reads about 8 MiB of all columns at a
            time, or one record where that has more. The dataset must stay open as long.

    Raises:
        ImportError: pyarrow is not installed.
        TypeError: no dataset.
        ValueError: no such streams; ragged records whose shapes differ in more than their first dimension; text that is no UTF-8.
        ZrecordError, OSError: the store can't be read.
    """
    pa = package("pyarrow", "to_arrow")
    schema, found = described(streams_of(ds, columns))
    if reader:
        return pa.RecordBatchReader.from_batches(schema, found)
    return pa.Table.from_batches(list(found), schema)


def described(streams: Mapping[str, Stream]) -> tuple[Any, Iterator[Any]]:
    """The schema of a table, and its batches."""
    import pyarrow as pa

    columns = {name: Column(name, stream) for name, stream in streams.items()}
    notes = {name: note(stream.dtype, stream.metadata) for name, stream in streams.items()}
    fields = [pa.field(name, column.type) for name, column in columns.items()]
    schema = pa.schema(fields, metadata={KEY: json.dumps(notes)})

    def found() -> Iterator[Any]:
        for start, batch in batches(streams):
            arrays = [columns[name].array(values, start) for name, values in batch.items()]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return schema, found()
