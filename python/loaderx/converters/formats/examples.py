"""`tf.train.Example`: its features as streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from loaderx._core import parse_examples, scan_examples
from loaderx.arguments import integer
from loaderx.converters.formats.pieces import Nulls, check_nulls, check_text, unique_names, valid_spec
from loaderx.converters.source import ITSELF, TEXT, Array, Block, StreamSpec, Values
from loaderx.dataset.packed import Packed

KINDS: dict[str, np.dtype[Any]] = {
    "int64": np.dtype(np.int64),
    "float": np.dtype(np.float32),
    "bytes": np.dtype(np.uint8),
}
MANY = "bytes[]"
"""Bytes of which a record may have several values, or none."""
AS_THEY_ARE = "examples=False takes records as they are"


class Raw(NamedTuple):
    """Records in a buffer."""

    buffer: Array
    starts: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint64]
    first: int
    """What the first of them is called in messages."""
    place: str
    """What they are in: the file."""


@dataclass(frozen=True)
class Feature:
    """A feature, and what becomes of it."""

    name: str
    kind: str
    """"int64", "float", "bytes"."""
    shape: tuple[int, ...] | None
    """Of a dense stream."""
    many: bool = False
    """Bytes: whether a record has other than one value."""
    text: bool = False
    lack: str = ""
    """Which record doesn't have it, if one is known."""

    @property
    def stream(self) -> str:
        """The name of its stream: a slash would be a folder."""
        return self.name.replace("/", ".")

    def specs(self, masked: bool) -> Iterable[StreamSpec]:
        """Its streams."""
        origin = f"feature {self.name!r}: {self.kind}"
        kind = self.kind
        if self.shape is not None:
            yield StreamSpec(self.stream, "dense", KINDS[kind], self.shape, origin)
        else:
            yield StreamSpec(self.stream, "ragged", KINDS[kind], None, origin, TEXT if self.text else {})
        if self.many:
            yield StreamSpec(
                f"{self.stream}.lengths", "ragged", np.dtype(np.int64), None, f"{origin}, the bytes of each value"
            )
        if masked:
            yield valid_spec(self.stream, f"which records have {self.name!r}")


class Seen(NamedTuple):
    """A feature as the records have it."""

    kind: str | None
    present: int
    least: int
    most: int
    lack: str
    """A record that doesn't have it."""


class Survey:
    """Which features all records have. `where` they are: the files, for messages."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.seen: dict[bytes, Seen] = {}
        self.records = 0

    def add(self, raw: Raw) -> None:
        """Look at more records. ValueError for what is no Example, or a feature of another kind."""
        try:
            seen = scan_examples(raw.buffer, raw.starts, raw.lengths, raw.first)
        except ValueError as error:
            raise ValueError(f"{raw.place}: {error}; {AS_THEY_ARE}") from error
        found = {name: Seen(kind, present, least, most, "") for name, kind, present, least, most, _ in seen}
        self.merge(found, len(raw.starts), raw.place)

    def merge(self, found: Mapping[bytes, Seen], records: int, place: str) -> None:
        """Add what others have seen, in `records` records."""
        for name in dict.fromkeys([*self.seen, *found]):
            a = self.seen.get(name, Seen(None, 0, 2**63, 0, f"the first {self.records}" if self.records else ""))
            b = found.get(name, Seen(None, 0, 2**63, 0, place))
            if a.kind and b.kind and a.kind != b.kind:
                raise ValueError(
                    f"{place}: feature {name.decode(errors='replace')!r} is {b.kind}, and before {a.kind}; {AS_THEY_ARE}"
                )
            lack = a.lack or b.lack or (place if b.present < records else "")
            self.seen[name] = Seen(
                a.kind or b.kind, a.present + b.present, min(a.least, b.least), max(a.most, b.most), lack
            )
        self.records += records

    def features(self) -> list[Feature]:
        """What becomes of them, by name. ValueError for a name that is no text, and where there are none."""
        features: list[Feature] = []
        for name, seen in sorted(self.seen.items()):
            if seen.kind is None:
                continue
            even = seen.least == seen.most and seen.most > 0 and seen.kind != "bytes"
            shape = (() if seen.most == 1 else (seen.most,)) if even else None
            many = seen.kind == "bytes" and (seen.least, seen.most) != (1, 1)
            lacking = self.records - seen.present
            lack = (
                f"{lacking:,} of {self.records:,} records don't have it, one of them in {seen.lack}" if lacking else ""
            )
            features.append(Feature(text_of(name), seen.kind, shape, many, lack=lack))
        if not features:
            raise ValueError(f"{self._where}: the records have no features; {AS_THEY_ARE}")
        return features


def found_examples(
    examples: bool | None,
    features: Any,
    nulls: Nulls,
    first: Callable[[], Iterable[Raw]],
    survey: Callable[[], Survey],
) -> Examples | None:
    """What is made of records by the options: of the features that are given, or that all records have; None for records as they are.

    `first` gives the first records of each file, and `survey` looks at all records.
    """
    if features is not None:
        return Examples(given_features(features), nulls, surveyed=False)
    if examples or (examples is None and are_examples(first())):
        return Examples(survey().features(), nulls, surveyed=True)
    return None


def are_examples(first: Iterable[Raw]) -> bool:
    """Whether the first record that has anything in it is an Example with features. ValueError for a SequenceExample."""
    for raw in first:
        there = np.flatnonzero(raw.lengths)[:1]
        if len(there):
            try:
                return bool(scan_examples(raw.buffer, raw.starts[there], raw.lengths[there], raw.first + int(there[0])))
            except ValueError as error:
                if "SequenceExample" in str(error):
                    raise ValueError(f"{raw.place}: {error}; {AS_THEY_ARE}") from error
                return False
    return False


def text_of(name: bytes) -> str:
    """A feature's name."""
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"feature {name!r}: its name is not UTF-8; give features= to take others") from error


def given_features(features: Any) -> list[Feature]:
    """What the option `features` says."""
    if not isinstance(features, Mapping) or not features:
        raise ValueError(
            f"features: expected names with kinds, such as {{'image': 'bytes', 'label': ('int64', ())}}, found {features!r}"
        )
    return [given_feature(name, value) for name, value in features.items()]


def given_feature(name: str, value: Any) -> Feature:
    """One of them: a kind, or (kind, shape)."""
    kind, shape = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    if kind in ("int64", "float"):
        sizes = None if shape is None else tuple(integer(n, "features: size of an axis", minimum=1) for n in shape)
        return Feature(name, kind, sizes)
    if kind in ("bytes", "text", MANY) and shape is None:
        return Feature(name, "bytes", None, kind == MANY, kind == "text")
    raise ValueError(
        f"features: expected 'bytes', 'text', '{MANY}', 'int64', 'float', ('int64', shape) or ('float', shape) for {name!r}, "
        f"found {value!r}"
    )


def check_options(examples: bool | None, features: Any, nulls: Nulls) -> None:
    """ValueError for options that contradict one another, or are none."""
    check_nulls(nulls)
    if features is not None and examples is False:
        raise ValueError("features: expected none with examples=False")


def streams_of(examples: Examples | None) -> Sequence[StreamSpec]:
    """The streams of Examples, or that of records as they are."""
    if examples is not None:
        return examples.streams
    return [StreamSpec(ITSELF, "ragged", np.dtype(np.uint8), None, "records as they are")]


class Examples:
    """Features of records as streams."""

    def __init__(self, features: Sequence[Feature], nulls: Nulls, surveyed: bool) -> None:
        self._features, self._nulls = features, nulls
        self._masked = {one.stream: nulls == "mask" and bool(one.lack or not surveyed) for one in features}
        specs = [spec for one in features for spec in one.specs(self._masked[one.stream])]
        lacks = {one.stream: one.lack for one in features if one.lack}
        self.streams = unique_names(
            [
                replace(spec, origin=f"{spec.origin}; {lacks[spec.name]}") if spec.name in lacks else spec
                for spec in specs
            ]
        )

    def wanted(self, names: Sequence[str]) -> list[Feature]:
        """The features that the streams `names` are of. ValueError for one that some record is known not to have."""
        streams = {f"{one.stream}{end}": one for one in self._features for end in ("", ".lengths", ".valid")}
        streams.update({one.stream: one for one in self._features})
        wanted = list({one.name: one for one in map(streams.__getitem__, names)}.values())
        for one in wanted:
            if one.lack and self._nulls == "refuse":
                raise ValueError(
                    f"feature {one.name!r}: {one.lack}; nulls='mask' makes zeros or empty records of it, and a stream {one.stream}.valid"
                )
        return wanted

    def read(self, raw: Raw, names: Sequence[str], wanted: Sequence[Feature]) -> Block:
        """The streams `names` of some records."""
        asked = [(one.name.encode(), one.kind) for one in wanted]
        try:
            columns = parse_examples(raw.buffer, raw.starts, raw.lengths, raw.first, asked)
        except ValueError as error:
            raise ValueError(f"{raw.place}: {error}") from error
        block: Block = {}
        for one, column in zip(wanted, columns, strict=True):
            block.update(self._streams(one, raw, *column))
        return {name: block[name] for name in names}

    def _streams(self, one: Feature, raw: Raw, counts: Array, values: Array, sizes: Array | None) -> Block:
        there = counts >= 0
        if self._nulls == "refuse" and not there.all():
            at = raw.first + int(np.flatnonzero(~there)[0])
            raise ValueError(f"{raw.place}: record {at} has no feature {one.name!r}; nulls='mask' takes such records")
        block: Block = {f"{one.stream}.valid": there} if self._masked[one.stream] else {}
        where = partial(place_of, raw, one.name)
        counts = np.maximum(counts, 0)
        if sizes is None:
            block[one.stream] = numbers(one, there, counts, values, where)
            return block
        if one.many:
            block[f"{one.stream}.lengths"] = Packed(sizes, offsets_of(counts), None)
        else:
            check_counts(there, counts, 1, where)
        packed = Packed(values, offsets_of(sizes)[offsets_of(counts)], None)
        block[one.stream] = check_text(packed, where) if one.text else packed
        return block


def numbers(one: Feature, there: Array, counts: Array, values: Array, where: Callable[[int], str]) -> Values:
    """A feature of numbers."""
    if one.shape is None:
        return Packed(values, offsets_of(counts), None)
    check_counts(there, counts, int(np.prod(one.shape)), where)
    if there.all():
        return values.reshape(len(counts), *one.shape)
    records = np.zeros((len(counts), *one.shape), values.dtype)
    records[there] = values.reshape(-1, *one.shape)
    return records


def check_counts(there: Array, counts: Array, expected: int, where: Callable[[int], str]) -> None:
    """ValueError for a record that has another number of values."""
    wrong = np.flatnonzero(there & (counts != expected))
    if len(wrong):
        raise ValueError(f"{where(int(wrong[0]))}: expected {expected} value(s), found {counts[wrong[0]]}")


def offsets_of(counts: Array) -> npt.NDArray[np.int64]:
    """Where each of neighbouring stretches of so many begins, and the last ends."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def place_of(raw: Raw, name: str, at: int) -> str:
    """A feature of a record, for messages."""
    return f"{raw.place}: record {raw.first + at}, feature {name!r}"
