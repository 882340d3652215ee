"""The streams of one directory: which there are, and what is done with all of them at once."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from loaderx._core import Store
from loaderx.arguments import add_note
from loaderx.dataset import schema as schemas
from loaderx.dataset.dense import DenseDataset
from loaderx.dataset.ragged import RaggedDataset
from loaderx.older import refuse_older
from loaderx.zrecord import StoreLockedError, Zrecord, no_store

Stream: TypeAlias = DenseDataset | RaggedDataset

KINDS: dict[str, type[DenseDataset] | type[RaggedDataset]] = {"dense": DenseDataset, "ragged": RaggedDataset}
POLL = 0.01


def found(directory: Path) -> list[str]:
    """The names of all streams in `directory`, sorted: the children with a schema, and those that lost it, which must not be left out."""
    return sorted(
        child.name for child in directory.iterdir() if (child / schemas.FILE).is_file() or Store.exists(child)
    )


def named(directory: Path, names: Iterable[str] | None) -> list[str]:
    """The streams meant: those of these names, or all. FileNotFoundError if there are none."""
    if names is not None:
        return checked_names(names)
    all_names = found(directory)
    if not all_names:
        raise FileNotFoundError(errno.ENOENT, f"no streams: no child directory has a {schemas.FILE}", str(directory))
    return all_names


def checked_names(names: Iterable[str], what: str = "names") -> list[str]:
    """Names of streams or parts as a list. TypeError for other than strings, ValueError for none, duplicates, or what names no child."""
    if isinstance(names, (str, bytes)):
        raise TypeError(f"{what}: expected a list of names, found {names!r}")
    listed = list(names)
    for name in listed:
        if not isinstance(name, str):
            raise TypeError(f"{what}: expected strings, found {name!r}")
        if not names_a_child(name):
            raise ValueError(f"{what}: expected names of child directories, found {name!r}")
    if not listed:
        raise ValueError(f"{what}: expected at least one, found none")
    if len(set(listed)) != len(listed):
        raise ValueError(f"{what}: expected each once, found {listed}")
    return listed


def names_a_child(name: str) -> bool:
    """Whether `name` leads to a child of the directory, and nowhere else."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def opened(directory: Path, names: Iterable[str], options: Mapping[str, Any]) -> dict[str, Stream]:
    """Name -> dataset. If one can't be opened, none is left open."""
    with contextlib.ExitStack() as stack:
        streams: dict[str, Stream] = {}
        for name in names:
            path = directory / name
            if not Store.exists(path):
                raise no_store(path, "there is no such stream")
            refuse_older(path)
            streams[name] = KINDS[schemas.read(path).kind](path, **options)
            stack.callback(streams[name].close)
        stack.pop_all()
    return streams


def checked_records(streams: Mapping[str, Stream], records: Mapping[str, Any]) -> dict[str, Any]:
    """What an append brings to each stream, ready to be written.

    TypeError or ValueError where the entries are not those of the streams, do not fit them, or are unequally many records.
    """
    if not isinstance(records, Mapping):
        raise TypeError(f"append: expected a mapping of stream names to records, found {type(records).__name__}")
    missing = [name for name in streams if name not in records]
    unknown = [name for name in records if name not in streams]
    if missing or unknown:
        raise ValueError(
            f"append: expected an entry for each of the streams {list(streams)}; missing: {missing}, unknown: {unknown}"
        )
    checked: dict[str, Any] = {}
    for name, stream in streams.items():
        try:
            checked[name] = stream._check(records[name])
        except (TypeError, ValueError) as error:
            if type(error) in (TypeError, ValueError):
                raise type(error)(f"stream {name!r}: {error}") from error
            add_note(error, f"in stream {name!r}")
            raise
    counts = {name: count for name, (count, _) in checked.items()}
    if len(set(counts.values())) != 1:
        raise ValueError(f"append: expected equally many records for every stream, found {counts}")
    return checked


def close_all(streams: Iterable[Stream]) -> None:
    """Close each, also where closing another fails."""
    with contextlib.ExitStack() as stack:
        for stream in streams:
            stack.callback(stream.close)


@contextlib.contextmanager
def held(stores: Mapping[str, Zrecord], what: str, patience: float = 0.0) -> Iterator[dict[str, int]]:
    """Keep every other handle off all of the stores; the value is their lengths.

    StoreLockedError, after `patience` seconds, where another handle has one of them open; then none is held.
    """
    start = time.monotonic()
    while True:
        with contextlib.ExitStack() as stack:
            try:
                lengths: dict[str, int] = {}
                for name, store in stores.items():
                    stack.callback(store.release)
                    lengths[name] = store.hold(what)
            except StoreLockedError:
                if time.monotonic() - start >= patience:
                    raise
            else:
                yield lengths
                return
        time.sleep(POLL)


def equal_length(directory: Path, lengths: Mapping[str, int]) -> int:
    """The length that all streams have. ValueError if it isn't one."""
    if len(set(lengths.values())) != 1:
        shortest = min(lengths.values())
        raise ValueError(
            f"{directory}: expected streams of one length, found {dict(lengths)}: a writer was cut between two streams, or one of them "
            f"was changed on its own. After a cut append MSDataset.repair({str(directory)!r}) cuts them to the {shortest} records that "
            "all of them have; after a deletion from one of them that would put wrong records together"
        )
    return next(iter(lengths.values()))
