"""Which streams are written, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from loaderx.converters.source import Block, StreamSpec
from loaderx.dataset.streams import checked_names
from loaderx.utils.arrays import check_dictionary


class Chosen(NamedTuple):
    """The streams that are written."""

    specs: list[StreamSpec]
    """Under their new names."""
    sources: dict[str, str]
    """New name -> name in the source."""

    def renamed(self, block: Block) -> Block:
        """A block of the source as one of the destination."""
        return {new: block[old] for new, old in self.sources.items()}


class Encoding(NamedTuple):
    """How a stream is stored."""

    codec: str
    level: int | None
    dictionary: bytes | None


def chosen(
    found: Sequence[StreamSpec], names: Sequence[str] | Mapping[str, str] | None, refused: Mapping[str, str]
) -> Chosen:
    """The streams that `names` means. ValueError for those that the source doesn't have, or that are `refused`."""
    known = {spec.name: spec for spec in found}
    if names is None:
        if refused:
            raise ValueError(
                f"{next(iter(refused.values()))}; streams= of the others leaves it out (there are {list(known)})"
            )
        if not known:
            raise ValueError("the source has no streams")
        sources = {name: name for name in known}
    elif isinstance(names, Mapping):
        sources = {new: names[new] for new in checked_names(names, "streams")}
    else:
        sources = {name: name for name in checked_names(names, "streams")}
    hopeless = [refused[old] for old in sources.values() if old in refused]
    if hopeless:
        raise ValueError(hopeless[0])
    missing = [old for old in sources.values() if old not in known]
    if missing:
        raise ValueError(f"streams: expected some of {list(known)}, found {missing}")
    return Chosen([replace(known[old], name=new) for new, old in sources.items()], sources)


def of(
    streams: Chosen,
    codec: str | Mapping[str, str],
    level: int | None,
    dict_bytes: bytes | Mapping[str, bytes] | None,
) -> dict[str, Encoding]:
    """The encoding of each stream, by its new name."""
    names = list(streams.sources)
    codecs = for_each(names, codec, "codec")
    dictionaries = for_each(names, dict_bytes, "dict_bytes")
    encodings: dict[str, Encoding] = {}
    for name in names:
        one = Encoding(codecs.get(name, "zstd"), level, dictionaries.get(name))
        check_dictionary(one.codec, one.dictionary)
        if one.codec == "zstd_dict" and one.dictionary is None:
            raise ValueError(
                f"codec 'zstd_dict' needs dict_bytes{f' for stream {name!r}' if name else ''}: "
                "to train a dictionary on the data itself, convert it to 'raw' and use loaderx.recode"
            )
        encodings[name] = one
    return encodings


def for_each(names: Sequence[str], given: Any, what: str) -> dict[str, Any]:
    """What is given for each of the streams. ValueError for one that isn't there."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        return dict.fromkeys(names, given)
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ValueError(f"{what}: expected some of the streams {names}, found {unknown}")
    return dict(given)
