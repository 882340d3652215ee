"""A folder of images: encoded as they lie there, or decoded to one size; the folders in it are classes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from loaderx.arguments import integer
from loaderx.converters.finding import identity, natural_parts
from loaderx.converters.formats.pieces import joined, steps
from loaderx.converters.formats.ranges import read_range
from loaderx.converters.source import CLASSES, TEXT, Array, Block, Format, Part, StreamSpec
from loaderx.dataset.packed import Packed

SUFFIXES = (
    ".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".avif", ".jp2", ".heic",
)  # fmt: skip
CHANNELS = {"L": 1, "RGB": 3, "RGBA": 4}
DEEP = ("I", "F")
"""How the names of Pillow's modes begin whose values it doesn't scale to 8 bits."""
IMAGE, LABEL, PATH, VALID = "image", "label", "path", "image.valid"


class Decoding(NamedTuple):
    """How images become arrays of one shape."""

    height: int
    width: int
    mode: str
    fit: str
    mask: bool
    """Whether one that can't be decoded becomes zeros."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of an image."""
        channels = CHANNELS[self.mode]
        return (self.height, self.width) if channels == 1 else (self.height, self.width, channels)


class ImageFolder:
    """The images of a folder and all below it, class by class, in natural order."""

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        labels: bool = True,
        decode: bool = False,
        size: tuple[int, int] | None = None,
        mode: Literal["L", "RGB", "RGBA"] = "RGB",
        fit: Literal["stretch", "crop"] = "stretch",
        on_error: Literal["raise", "mask"] = "raise",
    ) -> None:
        if len(paths) != 1:
            raise ValueError(f"expected one folder of images, found {len(paths)} paths")
        self._root = paths[0]
        self._decoding = decoding(decode, size, mode, fit, on_error)
        found = sorted(images_below(self._root), key=lambda image: natural_parts(image.path.split("/")))
        self._names = [image.path for image in found]
        self._sizes = np.array([image.size for image in found], np.int64)
        self.files = [self._root / name for name in self._names]
        classes: list[str] | None = None
        self._labels: Array = np.zeros(0, np.int64)
        if labels:
            classes, self._labels = classes_of(self._root, self._names)
        self.streams = list(self._specs(classes))
        if self._decoding is not None:
            import PIL  # noqa: F401 - what is missing is told before anything is begun

    def _specs(self, classes: list[str] | None) -> Iterator[StreamSpec]:
        if self._decoding is None:
            yield StreamSpec(IMAGE, "ragged", np.dtype(np.uint8), None, "files as they are")
        else:
            how = f"files, decoded, {self._decoding.mode}, {'cropped and ' if self._decoding.fit == 'crop' else ''}resized"
            yield StreamSpec(IMAGE, "dense", np.dtype(np.uint8), self._decoding.shape, how)
            if self._decoding.mask:
                yield StreamSpec(VALID, "dense", np.dtype(bool), (), "which images could be decoded")
        if classes is not None:
            listed = ", ".join(classes[:3]) + (", ..." if len(classes) > 3 else "")
            yield StreamSpec(
                LABEL, "dense", np.dtype(np.int64), (), f"{len(classes)} folders: {listed}", {CLASSES: classes}
            )
        yield StreamSpec(PATH, "ragged", np.dtype(np.uint8), None, "names of files in the folder", TEXT)

    @property
    def records(self) -> int:
        """The number of records."""
        return len(self._names)

    def parts(self, start: int, names: Sequence[str]) -> Iterator[Part]:
        """Some files each."""
        sizes = np.zeros(self.records, np.int64)
        if IMAGE in names or VALID in names:
            sizes = self._sizes.copy()
            if self._decoding is not None:
                sizes = np.maximum(sizes, int(np.prod(self._decoding.shape)))
        for first, stop in steps(sizes + 64, start, most=4096):
            yield partial(self._block, names, first, stop)

    def _block(self, names: Sequence[str], first: int, stop: int) -> Block:
        block: Block = {}
        if self._decoding is not None and (IMAGE in names or VALID in names):
            block[IMAGE], block[VALID] = decoded(self.files[first:stop], self._decoding)
        elif IMAGE in names:
            block[IMAGE] = joined([read_image(self.files[at], int(self._sizes[at])) for at in range(first, stop)])
        if LABEL in names:
            block[LABEL] = self._labels[first:stop]
        if PATH in names:
            block[PATH] = self._paths(first, stop)
        return {name: block[name] for name in names}

    def _paths(self, first: int, stop: int) -> Packed:
        try:
            return joined([name.encode() for name in self._names[first:stop]])
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{self._root}: the name {error.object!r} is not UTF-8, so that stream {PATH!r} can't hold it; give streams= without it"
            ) from error

    def close(self) -> None:
        """Nothing is open between parts."""


class Found(NamedTuple):
    """An image."""

    path: str
    """In the folder."""
    size: int


def images_below(root: Path, strict: bool = True) -> Iterator[Found]:
    """All images in a folder and below it, links followed.

    ValueError for a link to a folder that it lies in, or to nothing; not `strict`: they are passed over.
    """
    pending: list[tuple[str, str, tuple[tuple[int, int], ...]]] = [(os.fspath(root), "", (identity(root),))]
    while pending:
        folder, inner, above = pending.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith((".", "_")):
                    continue
                if entry.is_dir():
                    own = identity(entry.path) if entry.is_symlink() else (entry.stat().st_dev, entry.inode())
                    if own in above:
                        if strict:
                            raise ValueError(f"{entry.path}: this link leads to a folder that it lies in")
                        continue
                    pending.append((entry.path, f"{inner}{entry.name}/", (*above, own)))
                elif entry.name.lower().endswith(SUFFIXES):
                    if not entry.is_file():
                        if strict:
                            raise ValueError(f"{entry.path}: expected an image, found no file")
                        continue
                    yield Found(f"{inner}{entry.name}", entry.stat().st_size)


def classes_of(root: Path, names: Sequence[str]) -> tuple[list[str] | None, Array]:
    """The folders in the folder that hold images, and which of them each image lies in. None where no image lies in one."""
    firsts = [name.partition("/")[0] if "/" in name else "" for name in names]
    classes = sorted(set(firsts), key=lambda name: natural_parts([name]))
    if classes == [""]:
        return None, np.zeros(0, np.int64)
    if "" in classes:
        stray = next(name for name in names if "/" not in name)
        raise ValueError(
            f"{root / stray}: this image is in no folder, which would be its class, and others are; labels=False takes all"
        )
    numbers = {name: number for number, name in enumerate(classes)}
    return classes, np.array([numbers[first] for first in firsts], np.int64)


def decoding(decode: bool, size: Any, mode: str, fit: str, on_error: str) -> Decoding | None:
    """The options of decoding. ValueError for those that mean nothing."""
    for value, name, known in (
        (mode, "mode", CHANNELS),
        (fit, "fit", ("stretch", "crop")),
        (on_error, "on_error", ("raise", "mask")),
    ):
        if value not in known:
            raise ValueError(f"{name}: expected one of {', '.join(known)}, found {value!r}")
    if not decode:
        if size is not None or on_error != "raise":
            raise ValueError("size and on_error are for decode=True")
        return None
    if not isinstance(size, (tuple, list)) or len(size) != 2:
        raise ValueError(f"size: expected (height, width), to which images are resized, found {size!r}")
    height, width = (integer(n, "size", minimum=1, maximum=1 << 15) for n in size)
    return Decoding(height, width, mode, fit, on_error == "mask")


def read_image(file: Path, size: int) -> bytes:
    """The bytes of a file. OSError if they are not as many as there were."""
    content = read_range(file, 0, size).tobytes()
    if file.stat().st_size != size:
        raise OSError(f"{file}: expected {size} bytes, found {file.stat().st_size}; it was changed meanwhile")
    return content


def decoded(files: Sequence[Path], how: Decoding) -> tuple[Array, Array]:
    """Images as arrays, shape (n, *how.shape), and which of them could be decoded."""
    images = np.zeros((len(files), *how.shape), np.uint8)
    valid = np.ones(len(files), bool)
    for at, file in enumerate(files):
        try:
            images[at] = decoded_one(file, how)
        except ImportError:
            raise
        except Exception as error:  # a decoder meets anything in damaged bytes
            if not how.mask:
                raise ValueError(
                    f"{file}: this image can't be decoded: {error}; on_error='mask' makes zeros of it"
                ) from error
            images[at], valid[at] = 0, False
    return images, valid


def decoded_one(file: Path, how: Decoding) -> Array:
    """An image upright, in the mode and size wanted."""
    from PIL import Image, ImageOps

    size = (how.width, how.height)
    with file.open("rb") as stream, Image.open(stream) as image:
        if image.mode.startswith(DEEP):
            raise ValueError(
                f"its values have more than 8 bits (Pillow's mode {image.mode}), and would be cut off at 255"
            )
        upright = ImageOps.exif_transpose(image).convert(how.mode)
    if how.fit == "crop":
        return np.asarray(ImageOps.fit(upright, size, Image.Resampling.BICUBIC))
    return np.asarray(upright.resize(size, Image.Resampling.BICUBIC))


def finds(path: Path) -> Sequence[Path]:
    """The folder itself, if there is an image in it or below."""
    if not path.is_dir():
        return []
    return [path] if next(images_below(path, strict=False), None) is not None else []


FORMAT = Format("images", "a folder of images", finds, ImageFolder, needs="pillow")
