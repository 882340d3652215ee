"""Streams as a dataset of Hugging Face."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loaderx.converters.outward.reading import package, streams_of
from loaderx.converters.outward.to_arrow import described
from loaderx.converters.source import CLASSES
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from loaderx.dataset.streams import Stream
from loaderx.zrecord import PathLike


def to_hf(
    ds: DenseDataset | RaggedDataset | MSDataset, path: PathLike | None = None, columns: Sequence[str] | None = None
) -> Any:
    """Streams as a `datasets.Dataset`.

    Columns are as `to_arrow` makes them. A stream of int64 whose metadata lists classes becomes a `ClassLabel`.

    Args:
        ds: a store, or several streams.
        path: an `.arrow` file to write, some 8 MiB of all columns at a time, or one record where that has more; the dataset is
            mapped from it. None: all in memory.
        columns: the streams wanted, in this order. None: all.

    Raises:
        ImportError: datasets is not installed.
        FileExistsError: there is something at `path`.
        TypeError, ValueError: as for `to_arrow`, and for a dtype that Hugging Face's features don't have.
        ZrecordError, OSError: the store can't be read, or the file not be written.
    """
    datasets, pa = package("datasets", "to_hf"), package("pyarrow", "to_hf")

    streams = streams_of(ds, columns)
    schema, batches = described(streams)
    features = features_of(schema, streams)
    schema = features.arrow_schema
    if path is None:
        table = pa.Table.from_batches((batch.replace_schema_metadata(schema.metadata) for batch in batches), schema)
        return datasets.Dataset(datasets.table.InMemoryTable(table))
    path = Path(path)
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, "there is something already; choose another path or remove it", str(path))
    new = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with pa.OSFile(str(new), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
            for batch in batches:
                writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        new.rename(path)
    finally:
        new.unlink(missing_ok=True)
    return datasets.Dataset.from_file(str(path))


def features_of(schema: Any, streams: Mapping[str, Stream]) -> Any:
    """The features of the columns. ValueError where there is none for a type."""
    import datasets

    features = datasets.Features()
    for field in schema:
        classes = streams[field.name].metadata.get(CLASSES)
        if isinstance(classes, list) and streams[field.name].dtype == np.int64 and str(field.type) == "int64":
            features[field.name] = datasets.ClassLabel(names=classes)
            continue
        try:
            features[field.name] = datasets.features.features.generate_from_arrow_type(field.type)
        except ValueError as error:
            raise ValueError(f"stream {field.name!r}: Hugging Face has no feature for {field.type}: {error}") from error
    return features
