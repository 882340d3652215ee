"""Which format a source is of, and opening it."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from loaderx._core import Store
from loaderx.converters.source import Format, Source
from loaderx.copying.place import streams_of
from loaderx.older import refuse_older

MODULES = (
    "npy",
    "npz",
    "hdf5",
    "parquet",
    "arrow",
    "huggingface",
    "zarr",
    "lance",
    "csv",
    "webdataset",
    "tfrecord",
    "image_folder",
    "mds",
    "lmdb",
    "array_record",
    "loaderx2",
)
"""The modules of `formats/`."""


DIGITS = re.compile(r"([0-9]+)")


def formats() -> dict[str, Format]:
    """All formats, by name."""
    found = (import_module(f"loaderx.converters.formats.{module}").FORMAT for module in MODULES)
    return {form.name: form for form in found}


def found(src: Any, name: str | None) -> tuple[Format, Any]:
    """The format of `src`, and what its `open` takes: files, or the object itself.

    Raises:
        FileNotFoundError: there is nothing at a path.
        ValueError: no such format; nothing that can be converted, or what may be several things: `name` then tells which.
        ZrecordError: a store of an older release, which `migrate` reads.
    """
    known = formats()
    if name is not None and name not in known:
        raise ValueError(f"format: expected one of {', '.join(known)}, found {name!r}")
    if isinstance(src, np.ndarray):
        raise ValueError("this numpy.ndarray: an array in memory is written by loaderx.from_numpy")
    candidates = [known[name]] if name else list(known.values())
    paths = paths_of(src)
    if paths is None:
        matching = [(form, src) for form in candidates if form.takes(src)]
        what = f"this {type(src).__module__}.{type(src).__name__}"
    else:
        each = [(form, files_of(form, paths)) for form in candidates]
        matching = [(form, files) for form, files in each if files]
        what = ", ".join(map(str, paths[:3]))
    if len(matching) == 1:
        return matching[0]
    if matching:
        names = ", ".join(repr(form.name) for form, _ in matching)
        raise ValueError(f"{what}: this may be several things: give format= one of {names}")
    for path in paths or []:
        refuse_store(path)
    expected = known[name].title if name else ", ".join(form.title for form in known.values())
    alike = ", all of one format" if paths is not None and len(paths) > 1 else ""
    raise ValueError(f"{what}: found nothing to convert here; expected {expected}{alike}")


def refuse_store(path: Path) -> None:
    """ZrecordError, which names the way out, where a store is that needs no conversion: of 0.5 to 1.4; ValueError for one of today."""
    refuse_older(path)
    if Store.exists(path) or streams_of(path):
        raise ValueError(f"{path}: a store of loaderx needs no conversion; loaderx.recode and its like write it anew")


def opened(form: Format, given: Any, options: Mapping[str, Any], workers: int = 1) -> Source:
    """The source; an `open` with a parameter `workers` may use so many threads.

    TypeError for an option that the format doesn't have, ImportError where its package is missing.
    """
    kinds = inspect.signature(form.open).parameters.values()
    threads = [workers] if any(parameter.name == "workers" for parameter in kinds) else []
    known = [parameter.name for parameter in kinds if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    unknown = [name for name in options if name not in known]
    if unknown:
        have = f"it has {', '.join(known)}" if known else "it has none"
        raise TypeError(f"{form.title} has no option {', '.join(unknown)}: {have}")
    try:
        return form.open(given, *threads, **options)
    except ImportError as error:
        if form.needs is None:
            raise
        raise ImportError(
            f"converting {form.title} needs the package {form.needs}: pip install {form.needs} ({error})"
        ) from error


def paths_of(src: Any) -> list[Path] | None:
    """The paths that `src` is: one, or a list of them. None for anything else. FileNotFoundError where there is nothing."""
    listed = [src] if isinstance(src, (str, Path)) or hasattr(src, "__fspath__") else src
    if not isinstance(listed, (list, tuple)) or not listed:
        return None
    if not all(isinstance(path, str) or hasattr(path, "__fspath__") for path in listed):
        return None
    paths = [Path(path) for path in listed]
    for path in paths:
        path.stat()
    return paths


def files_of(form: Format, paths: Sequence[Path]) -> list[Path]:
    """All files of a format at `paths`; none if one of the paths is something else."""
    files: list[Path] = []
    for path in paths:
        more = form.finds(path)
        if not more:
            return []
        files += more
    return files


def with_suffix(path: Path, suffixes: Iterable[str]) -> list[Path]:
    """The file `path`, or the files of the directory `path` and all below it, whose names end so, in the order of `natural`."""
    ends = tuple(suffixes)
    if path.is_file():
        return [path] if path.name.lower().endswith(ends) else []
    if not path.is_dir():
        return []
    return sorted((file for file in files_below(path) if file.name.lower().endswith(ends)), key=natural)


def hidden(path: Path) -> bool:
    """Whether a part of a relative path begins with a dot or an underscore: what others leave beside their data."""
    return any(part.startswith((".", "_")) for part in path.parts)


def files_below(folder: Path) -> Iterator[Path]:
    """The files of a directory and all below it, links followed; not those that are `hidden`.

    A link to nothing is among them, so that a file that is lost is told, and not left out. OSError for a directory that can't be read.
    """
    pending: list[tuple[str, tuple[tuple[int, int], ...]]] = [(os.fspath(folder), (identity(folder),))]
    while pending:
        here, above = pending.pop()
        with os.scandir(here) as entries:
            for entry in entries:
                if hidden(Path(entry.name)):
                    continue
                if entry.is_dir():
                    own = identity(entry.path)
                    if own not in above:  # else it is a link to a directory that it lies in
                        pending.append((entry.path, (*above, own)))
                elif entry.is_file() or (entry.is_symlink() and not Path(entry.path).exists()):
                    yield Path(entry.path)


def identity(path: str | Path) -> tuple[int, int]:
    """Which directory it is."""
    status = os.stat(path)  # noqa: PTH116 - of a string as well
    return status.st_dev, status.st_ino


def natural(path: Path) -> tuple[list[Any], tuple[str, ...]]:
    """A key that sorts `part-2` before `part-10`."""
    return natural_parts(path.parts)


def natural_parts(parts: Sequence[str]) -> tuple[list[Any], tuple[str, ...]]:
    """As `natural`, of the names that a path is made of. Equal for the same names alone: `1` and `01` have an order too."""
    pieces = [DIGITS.split(part) for part in parts]
    return [[int(piece) if at % 2 else piece for at, piece in enumerate(part)] for part in pieces], tuple(parts)
