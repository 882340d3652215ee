"""What conversions begin with: files that other libraries write.

Each module has PACKAGE, and for each kind of records that it can hold a function, `dense(folder, rows, labels)` and
`ragged(folder, values, offsets)`, which returns what `loaderx.convert` is given. It runs where both packages are.
"""

from engines.engine import Engine

SOURCES = (
    Engine("npy", "sources/npy", role="own"),
    Engine("npz", "sources/npz", role="own"),
    Engine("loaderx2", "sources/loaderx2", role="own"),
    Engine("parquet", "sources/parquet", role="own"),
    Engine("hdf5", "sources/hdf5", role="own"),
    Engine("zarr", "sources/zarr", role="own"),
    Engine("webdataset", "sources/webdataset", role="own"),
)
"""Named as `convert` names the formats."""
