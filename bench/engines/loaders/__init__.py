"""The loaders that are compared: with the identity, and with a transform in Python."""

from engines.engine import PUBLISHED_1, PUBLISHED_2, Engine

TORCH = ("torch", "numpy")

LOADERS = (
    *(Engine(f"loaderx {codec}", "loaders/loaderx", codec, role="own") for codec in ("raw", "zstd")),
    # What a loader can't be faster than: the same two gathers one after another, without a loader.
    *(
        Engine(
            f"loaderx {codec}, gathers alone",
            "loaders/gathers",
            codec,
            reads=f"loaderx {codec}",
            role="limit",
            native=False,
        )
        for codec in ("raw", "zstd")
    ),
    *(Engine(f"loaderx 1.5.7 {codec}", "loaders/loaderx", codec, PUBLISHED_1) for codec in ("raw", "zstd")),
    *(Engine(f"loaderx 2.8.19 {codec}", "loaders/loaderx2", codec, PUBLISHED_2) for codec in ("raw", "zstd")),
    Engine("torch, whole batches", "loaders/torch_loader", requires=TORCH, opening={"whole": True}),
    Engine("torch, default collate", "loaders/torch_loader", requires=TORCH, opening={"whole": False}),
    Engine("grain", "loaders/grain", requires=("grain", "numpy")),
)

TWO = {"augment": True, "workers": 2}

AUGMENTED = (
    Engine("loaderx, threads", "loaders/loaderx", role="own", opening=TWO),
    Engine("loaderx, processes", "loaders/loaderx", role="own", opening={**TWO, "worker_type": "process"}),
    Engine("loaderx 1.5.7", "loaders/loaderx", "raw", PUBLISHED_1, opening=TWO),
    Engine("torch, whole batches", "loaders/torch_loader", requires=TORCH, opening={"augment": True, "whole": True}),
    # What a loader with two processes can't be faster than.
    Engine(
        "transform alone",
        "loaders/transform_alone",
        reads="loaderx, processes",
        role="limit",
        opening={"augment": True},
        native=False,
    ),
)
"""With two workers each."""
