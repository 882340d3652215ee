"""The stores that are compared."""

from engines.engine import PUBLISHED_1, PUBLISHED_2, Engine


def ours(kind: str, name: str, module: str) -> tuple[Engine, ...]:
    """Each codec as it is by default, and trusting the disk: the difference is what checking each record costs."""
    engines = []
    for codec in ("raw", "zstd", "zstd_dict"):
        always = Engine(f"{name} {codec}", f"{kind}/{module}", codec, role="own")
        never = {"verify": "never"}
        engines += [
            always,
            Engine(f"{always.name} unchecked", always.module, codec, opening=never, reads=always.name, role="own"),
        ]
    return tuple(engines)


DENSE = (
    *ours("dense", "loaderx", "loaderx"),
    *(
        Engine(f"loaderx out= {codec}", "dense/loaderx_out", codec, reads=f"loaderx {codec}", role="own")
        for codec in ("raw", "zstd")
    ),
    *(Engine(f"loaderx 1.5.7 {codec}", "dense/loaderx", codec, PUBLISHED_1) for codec in ("raw", "zstd", "zstd_dict")),
    *(Engine(f"loaderx 2.8.19 {codec}", "dense/loaderx2", codec, PUBLISHED_2) for codec in ("raw", "zstd")),
    Engine("npy, memory-mapped", "dense/npy"),
    Engine("lmdb", "dense/lmdb", requires=("lmdb", "numpy")),
    Engine("h5py", "dense/h5py", requires=("h5py",)),
    Engine("array_record", "dense/array_record", "uncompressed", ("array-record", "numpy")),
    Engine("array_record zstd", "dense/array_record", "zstd", ("array-record", "numpy")),
    Engine("tensorstore", "dense/tensorstore", requires=("tensorstore",)),
    Engine("zarr", "dense/zarr", requires=("zarr",)),
    Engine("blosc2 zstd", "dense/blosc2", "zstd", ("blosc2",)),
    Engine("lance", "dense/lance", requires=("pylance", "numpy")),
    Engine("limit raw", "raw", role="limit"),
    Engine("limit zstd", "zstd", "zstd", role="limit"),
)

RAGGED = (
    *ours("ragged", "loaderx list", "loaderx_list"),
    *(
        Engine(f"loaderx packed {codec}", "ragged/loaderx_packed", codec, role="own")
        for codec in ("raw", "zstd", "zstd_dict")
    ),
    *(
        Engine(f"loaderx 1.5.7 list {codec}", "ragged/loaderx_list", codec, PUBLISHED_1)
        for codec in ("raw", "zstd", "zstd_dict")
    ),
    *(Engine(f"loaderx 2.8.19 packed {codec}", "ragged/loaderx2", codec, PUBLISHED_2) for codec in ("raw", "zstd")),
    Engine("npy packed, memory-mapped", "ragged/npy"),
    Engine("lmdb list", "ragged/lmdb", requires=("lmdb", "numpy")),
    Engine("h5py list", "ragged/h5py", requires=("h5py",)),
    Engine("array_record list", "ragged/array_record", "uncompressed", ("array-record", "numpy")),
    Engine("lance list", "ragged/lance", requires=("pylance", "numpy")),
    Engine("limit raw", "raw", role="limit"),
    Engine("limit zstd", "zstd", "zstd", role="limit"),
)

# Every loaderx there is: what another store takes for a million small records of a batch each is no news.
RAGGED_SHORT = tuple(
    engine
    for engine in RAGGED
    if engine.codec != "zstd_dict"
    and not engine.reads
    and (engine.role == "own" or engine.requires in (PUBLISHED_1, PUBLISHED_2))
)

COLD = (
    Engine("loaderx raw", "dense/loaderx", role="own"),
    Engine("loaderx 1.5.7 raw", "dense/loaderx", requires=PUBLISHED_1),
    Engine("npy, memory-mapped", "dense/npy"),
    Engine("limit cold", "cold", role="limit"),
)
