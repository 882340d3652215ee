"""Names of streams for what has a path in its source."""

from __future__ import annotations

from collections.abc import Iterable

from loaderx.dataset.streams import names_a_child


def stream_names(paths: Iterable[tuple[str, ...]], what: str) -> dict[tuple[str, ...], str]:
    """A stream name for each path: its pieces joined by dots, and slashes in them are dots too ("a/b" -> "a.b").

    ValueError where two paths come to the same name, or one to a name that no directory can have.
    """
    names: dict[tuple[str, ...], str] = {}
    owners: dict[str, tuple[str, ...]] = {}
    for path in paths:
        name = ".".join(path).replace("/", ".")
        if not names_a_child(name):
            raise ValueError(f"{what} {'/'.join(path)!r}: a stream is a directory, and can't have the name {name!r}")
        if name in owners:
            raise ValueError(
                f"{what} {'/'.join(path)!r}: its stream would have the name {name!r}, as that of {'/'.join(owners[name])!r} has; "
                "rename one of them"
            )
        names[path], owners[name] = name, path
    return names
