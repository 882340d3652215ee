"""The loaders that are compared."""

from engines.engine import PUBLISHED_1, PUBLISHED_2, Engine

TORCH = ("torch", "numpy")

LOADERS = (
    *(Engine(f"loaderx {codec}", "loaders/loaderx", codec, role="own") for codec in ("raw", "zstd")),
    *(Engine(f"loaderx 1.5.7 {codec}", "loaders/loaderx", codec, PUBLISHED_1) for codec in ("raw", "zstd")),
    *(Engine(f"loaderx 2.8.19 {codec}", "loaders/loaderx2", codec, PUBLISHED_2) for codec in ("raw", "zstd")),
    Engine("torch, whole batches", "loaders/torch_loader", requires=TORCH, opening={"whole": True}),
    Engine("torch, default collate", "loaders/torch_loader", requires=TORCH, opening={"whole": False}),
    Engine("grain", "loaders/grain", requires=("grain", "numpy")),
)
