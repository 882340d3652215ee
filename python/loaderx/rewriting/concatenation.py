"""Several stores as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from loaderx.copying.snapshot import Snapshot
from loaderx.dataset.dtypes import described
from loaderx.dataset.schema import checked_metadata, pack, shown
from loaderx.progress import Progress
from loaderx.rewriting.encoding import Encoding, check
from loaderx.rewriting.origin import Origin, Source
from loaderx.rewriting.picked import Picked, Piece
from loaderx.rewriting.plan import Plan, Rewritten, Stream
from loaderx.zrecord import PathLike


def concat(
    sources: Iterable[Source],
    dst: PathLike,
    codec: str | None = None,
    *,
    level: int | None = None,
    dict_tier: str | None = None,
    dict_bytes: bytes | None = None,
    schema: Mapping[str, Any] | None = None,
    progress: Progress | bool | None = None,
    verify: bool = True,
) -> Rewritten:
    """Write the records of several stores, one store behind another, as a new store; of several streams each with its like.

    All sources are open at once, so none can be deleted from meanwhile; the system's limit of open files bounds their number.

    Args:
        sources: at least one; each as for `recode`. All of one kind, dtype and item shape, and with the same streams. One may come twice.
        dst: as for `recode`.
        codec: as for `recode`; None: that of the first source, and so with the next three.
        level: as for `recode`.
        dict_tier: as for `recode`; it is trained on the records of all sources.
        dict_bytes: as for `recode`.
        schema: your own keys of the new schema, which overrule those of the sources. Of these it has every key; where they differ in
            a key, it must be in `schema`.
        progress: as for `recode`.
        verify: as for `recode`.

    Returns:
        What became of it.

    Raises:
        ValueError: no sources, or sources that differ; the message names both.
        As `recode`.
    """
    asked = Encoding(codec, level, dict_tier, dict_bytes)
    check(asked)
    own = checked_metadata(schema)
    with ExitStack() as stack:
        origins = [stack.enter_context(Origin(source)) for source in listed(sources)]
        first = origins[0]
        streams = {}
        for origin in origins[1:]:
            if sorted(origin.streams) != sorted(first.streams):
                differ(first.path, named(first), origin.path, named(origin))
        for name, like in first.streams.items():
            stores = [origin.streams[name] for origin in origins]
            picked = Picked([Piece(store) for store in stores])
            streams[name] = Stream(like, picked, {"": picked}, merged(stores, own))
        plan = Plan(streams, [origin.path for origin in origins], asked, verify, progress)
        return Rewritten(sum(map(len, origins)), {}, plan.carry_out(Path(dst)))


def listed(sources: Iterable[Source]) -> list[Source]:
    """The sources. TypeError for one that is not in a list, ValueError for none."""
    if isinstance(sources, str) or not isinstance(sources, Iterable):
        raise TypeError(f"concat: expected a list of stores, found {sources!r}")
    every = list(sources)
    if not every:
        raise ValueError("concat: expected at least one store, found none")
    return every


def named(origin: Origin) -> str:
    """What there is, for messages."""
    return "one store" if "" in origin.streams else f"the streams {list(origin.streams)}"


def merged(stores: Sequence[Snapshot], own: Mapping[str, Any]) -> dict[str, Any]:
    """The user's own keys of all stores. ValueError where the stores can't be one: they differ in what records are, or in a key."""
    first, keys, origins = stores[0], dict(own), dict[str, Path]()
    for store in stores:
        if meaning(store) != meaning(first):
            differ(first.path, meaning(first), store.path, meaning(store))
        for key, value in ({} if store.schema is None else store.schema.metadata).items():
            if key in origins and pack(keys[key]) != pack(value):
                raise ValueError(
                    f"{store.path}: schema: {key} is {shown(value)}, and {shown(keys[key])} in {origins[key]}; "
                    f"say with schema= which it shall be"
                )
            if key not in keys:
                keys[key], origins[key] = value, store.path
    return keys


def meaning(store: Snapshot) -> str:
    """What the records of a store are."""
    schema = store.schema
    if schema is None:
        return "records of plain bytes"
    shape = "" if schema.item_shape is None else f" of shape {schema.item_shape}"
    return f"{schema.kind} records of {described(schema.dtype)}{shape}"


def differ(first: Path, of_first: str, other: Path, of_other: str) -> None:
    """ValueError that names both."""
    raise ValueError(f"concat: expected stores of one kind, found {of_first} in {first}, and {of_other} in {other}")
