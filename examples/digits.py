"""Handwritten digits, from arrays to a trained classifier: the whole of loaderx in one file.

    python examples/digits.py [FOLDER]        (default: build/demo; `make demo` does it all from nothing)

1. store images and labels as two streams, once in each codec;
2. train a small neural network, in NumPy, from random batches of a DataLoader;
3. stop half-way, resume from the saved step in a new loader, and end with the same weights to the last bit;
4. draw one batch with what the network says about it.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from loaderx.dataloader import DataLoader
from loaderx.dataset import DenseDataset
from loaderx.utils import from_numpy, train_dict
from PIL import Image, ImageDraw, ImageFont
from sklearn.datasets import load_digits  # type: ignore[import-untyped]

CODECS = ("raw", "zstd", "zstd_dict")
BATCH, STEPS, SEED = 64, 2000, 42
HIDDEN, RATE, MOMENTUM = 64, 0.05, 0.9


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/demo")
    shutil.rmtree(folder, ignore_errors=True)
    started = time.perf_counter()

    images, labels, test_images, test_labels = read_digits()
    print(f"\nscikit-learn's digits: {len(images):,} images to train on, {len(test_images)} to test, 8 x 8 pixels each")

    print("\n1. Store them, once in each codec\n")
    print("   codec         records    ratio    whole stream    batches a second")
    for codec in CODECS:
        write_streams(folder / codec, images, labels, codec)
        with DenseDataset(folder / codec / "image") as dataset:
            records = dataset.stats()["live_bytes"]
        whole = sum(file.stat().st_size for file in (folder / codec / "image").iterdir())
        rate = batches_a_second(folder / codec)
        print(
            f"   {codec:<10}{records / 1024:>6.1f} KiB{images.nbytes / records:>9.2f}{whole / 1024:>12.1f} KiB{rate:>20,.0f}"
        )
    print(
        f"\n   {images.nbytes / 1024:.1f} KiB of pixels. The whole stream has 20 bytes a record beside it (place and checksum) and, with"
    )
    print("   zstd_dict, the dictionary: both count for little with larger records or more of them.")

    print(f"\n2. Train a network of {HIDDEN} hidden units for {STEPS:,} steps of {BATCH} images\n")
    network = Network(SEED)
    with open_loader(folder / "zstd") as loader:
        train(network, loader, 0, STEPS, test_images, test_labels)
    accuracy = network.accuracy(test_images, test_labels)

    print("\n3. Stop at half-way, resume in a new loader, compare\n")
    half = STEPS // 2
    first = Network(SEED)
    with open_loader(folder / "zstd") as loader:
        train(first, loader, 0, half)
        first.save(folder / "checkpoint.npz", loader.step)
    resumed, step = Network.load(folder / "checkpoint.npz")
    with open_loader(folder / "zstd") as loader:
        loader.seek(step)
        train(resumed, loader, step, STEPS)
    same = network.digest() == resumed.digest()
    print(f"   {'one unbroken run':<25}weights {network.digest()}")
    print(f"   {f'resumed from step {step:,}':<25}weights {resumed.digest()}")
    print(f"   {'':<25}{'the same, bit for bit' if same else 'DIFFERENT: this is a fault'} (SHA-256)")

    picture = folder / "batch.png"
    with open_loader(folder / "zstd") as loader:
        batch = next(loader)
    draw(batch["image"][:48], batch["label"][:48], network.predict(batch["image"][:48]), picture)

    print(f"\nTest accuracy {accuracy:.1%} after {time.perf_counter() - started:.1f} s in all.")
    print(f"A batch as a picture: {picture}\n")
    if not same or accuracy <= 0.95:
        raise SystemExit("the demo did not reach its goal: more than 95 % and an exact resume")


# Data


def read_digits() -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Images (n, 8, 8) uint8 with values 0 to 16 and labels (n,) int64: four fifths to train on, one to test."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images, labels = digits.images[order].astype(np.uint8), digits.target[order].astype(np.int64)
    cut = len(images) * 4 // 5
    return images[:cut], labels[:cut], images[cut:], labels[cut:]


def write_streams(folder: Path, images: npt.NDArray[Any], labels: npt.NDArray[Any], codec: str) -> None:
    dictionary = train_dict(images, tier="fast") if codec == "zstd_dict" else None
    from_numpy(folder / "image", images, codec=codec, dict_bytes=dictionary)
    from_numpy(folder / "label", labels, codec="raw")


def scale(batch: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """The loader's transform: pixels become floats in 0..1, one row an image."""
    return {"image": batch["image"].reshape(-1, 64).astype(np.float32) / 16, "label": batch["label"]}


def open_loader(folder: Path) -> DataLoader:
    streams = {"image": DenseDataset(folder / "image"), "label": DenseDataset(folder / "label")}
    return DataLoader(streams, batch_size=BATCH, seed=SEED, transform=scale)


def batches_a_second(folder: Path, count: int = 1000) -> float:
    with open_loader(folder) as loader:
        next(loader)
        started = time.perf_counter()
        for _ in range(count):
            next(loader)
        return count / (time.perf_counter() - started)


# The network: 64 pixels -> 64 hidden units (ReLU) -> 10 digits (softmax), trained by gradient descent with momentum


class Network:
    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.weights = {
            "w1": rng.normal(0, 0.1, (64, HIDDEN)).astype(np.float32),
            "b1": np.zeros(HIDDEN, np.float32),
            "w2": rng.normal(0, 0.1, (HIDDEN, 10)).astype(np.float32),
            "b2": np.zeros(10, np.float32),
        }
        self.speed = {name: np.zeros_like(weight) for name, weight in self.weights.items()}

    def forward(self, images: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        w = self.weights
        hidden = np.maximum(images @ w["w1"] + w["b1"], 0)
        scores = hidden @ w["w2"] + w["b2"]
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return hidden, scores / scores.sum(axis=1, keepdims=True)

    def learn(self, images: npt.NDArray[Any], labels: npt.NDArray[Any]) -> float:
        """One step of gradient descent; returns the mean cross-entropy of the batch before it."""
        hidden, odds = self.forward(images)
        rows = np.arange(len(labels))
        loss = -np.log(odds[rows, labels] + 1e-9).mean()
        error = odds
        error[rows, labels] -= 1
        error /= len(labels)
        behind = (error @ self.weights["w2"].T) * (hidden > 0)
        slopes = {
            "w1": images.T @ behind,
            "b1": behind.sum(axis=0),
            "w2": hidden.T @ error,
            "b2": error.sum(axis=0),
        }
        for name, slope in slopes.items():
            self.speed[name] = MOMENTUM * self.speed[name] - RATE * slope
            self.weights[name] += self.speed[name]
        return float(loss)

    def predict(self, images: npt.NDArray[Any]) -> npt.NDArray[Any]:
        guesses: npt.NDArray[Any] = self.forward(images)[1].argmax(axis=1)
        return guesses

    def accuracy(self, images: npt.NDArray[Any], labels: npt.NDArray[Any]) -> float:
        batch = scale({"image": images, "label": labels})
        return float((self.predict(batch["image"]) == labels).mean())

    def digest(self) -> str:
        content = b"".join(weight.tobytes() for weight in self.weights.values())
        return hashlib.sha256(content).hexdigest()[:16]

    def save(self, path: Path, step: int) -> None:
        arrays: dict[str, Any] = {**self.weights, **{f"speed_{name}": value for name, value in self.speed.items()}}
        np.savez(path, step=step, **arrays)

    @classmethod
    def load(cls, path: Path) -> tuple[Network, int]:
        network = cls(SEED)
        with np.load(path) as file:
            network.weights = {name: file[name] for name in network.weights}
            network.speed = {name: file[f"speed_{name}"] for name in network.speed}
            return network, int(file["step"])


def train(
    network: Network,
    loader: DataLoader,
    start: int,
    stop: int,
    test_images: npt.NDArray[Any] | None = None,
    test_labels: npt.NDArray[Any] | None = None,
) -> None:
    """Steps start..stop. The loader never ends and has no epochs: the step is all there is to count."""
    for step in range(start, stop):
        batch = next(loader)
        loss = network.learn(batch["image"], batch["label"])
        if test_images is not None and test_labels is not None and (step + 1) % (STEPS // 5) == 0:
            accuracy = network.accuracy(test_images, test_labels)
            print(f"   step {step + 1:>5,}    loss {loss:6.4f}    test accuracy {accuracy:6.1%}")


# The picture


def draw(images: npt.NDArray[Any], labels: npt.NDArray[Any], guesses: npt.NDArray[Any], path: Path) -> None:
    """A grid of the images, eight to a row; under each its label, and the network's guess where it differs."""
    columns, cell, gap, text = 8, 96, 16, 30
    rows = -(-len(images) // columns)
    size = (columns * (cell + gap) + gap, rows * (cell + text + gap) + gap)
    page = Image.new("RGB", size, "white")
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(size=20)
    for i, (image, label, guess) in enumerate(zip(images, labels, guesses, strict=True)):
        x, y = gap + i % columns * (cell + gap), gap + i // columns * (cell + text + gap)
        ink = (255 - np.round(image.reshape(8, 8) * 255)).astype(np.uint8)
        page.paste(Image.fromarray(ink).resize((cell, cell), Image.Resampling.BICUBIC).convert("RGB"), (x, y))
        right = label == guess
        pen.rectangle(
            (x - 1, y - 1, x + cell, y + cell),
            outline="#b8bcc4" if right else "#c0392b",
            width=1 if right else 3,
        )
        caption = str(label) if right else f"{label}, not {guess}"
        pen.text(
            (x + cell / 2, y + cell + 4),
            caption,
            font=font,
            fill="#2c3e50" if right else "#c0392b",
            anchor="ma",
        )
    page.save(path)


if __name__ == "__main__":
    main()
