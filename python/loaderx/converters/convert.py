"""`convert`: data of another library, or files of another format, to a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from loaderx.arguments import integer
from loaderx.converters import encoding, job
from loaderx.converters.ahead import processors
from loaderx.converters.conversion import Conversion
from loaderx.converters.finding import found, opened
from loaderx.converters.identity import read_once
from loaderx.converters.running import Run
from loaderx.converters.source import refused_by
from loaderx.converters.writing import left_over, under_way
from loaderx.progress import PHASES, OpenProgress, telling
from loaderx.zrecord import PathLike


def convert(
    src: Any,
    dst: PathLike,
    format: str | None = None,  # noqa: A002 - it is what it is
    *,
    streams: Sequence[str] | Mapping[str, str] | None = None,
    codec: str | Mapping[str, str] = "zstd",
    level: int | None = None,
    dict_bytes: bytes | Mapping[str, bytes] | None = None,
    dry_run: bool = False,
    check: bool = False,
    restart: bool = False,
    workers: int | None = None,
    progress: OpenProgress | bool | None = None,
    **options: Any,
) -> Conversion:
    """Convert files of another format, or data of another library, to a store or to a directory of streams.

    What the source is, it tells itself, by names and first bytes; `dry_run` says what would be done. It is read in parts of some MiB, by
    several threads ahead of what is written, whatever its size. `dst` appears when all is done. A conversion that fails, is interrupted
    or killed leaves what it has written in `.DST.converting` beside it, and the same call goes on from there, unless nothing tells whether
    the source is the same one (`docs/convert.md`).

    `docs/convert.md` says for each format what becomes of its data, which options there are, and what is refused.

    Args:
        src: a file, a directory, a list of them (shards, in that order; those in a directory are in natural order, `part-2` before
            `part-10`), or an object of the libraries named in `docs/convert.md`.
        dst: directory of the new store; there must be nothing yet.
        format: the name of the format. None: what is found.
        streams: the names of those streams of the source that are wanted, or new name -> name in the source. None: all.
        codec: "zstd", "raw" or "zstd_dict", or one for each stream by its new name; those not named get "zstd".
        level: zstd level. None: 3 for "zstd", 19 for "zstd_dict".
        dict_bytes: dictionary for "zstd_dict" (from `train_dict`), or one for each stream. To train one on the data itself, convert to
            "raw" and `recode` that.
        dry_run: write nothing.
        check: in the end read source and store again, and compare them.
        restart: begin anew where a conversion to `dst` was cut, instead of going on with it.
        workers: threads that read. None: as many as this process may use processors.
        progress: called with (done, total) now and then: each record counts when it was written, and with `check` once more when it was
            compared; `total` is None where only reading everything tells. True: a line on stderr that tells it.
        options: those of the format.

    Returns:
        What was done, or would be.

    Raises:
        FileExistsError: there is something at `dst`.
        FileNotFoundError: there is nothing at `src`.
        ImportError: the format needs a package that isn't installed; the message names it.
        TypeError, ValueError: nothing that can be converted, several formats that it may be, options that the format doesn't have,
            values that no stream can hold (the message says which), the remains of another conversion to `dst`, or of one that may be
            another one; `check` of a source that gives its records once.
        ZrecordError: source and store are not the same (`check`), the source was changed meanwhile, or another call writes to `dst`.
        OSError: the source can't be read, or the store not be written.
    """
    path = Path(dst)
    threads = processors() if workers is None else integer(workers, "workers", minimum=1, maximum=1024)
    form, given = found(src, format)
    with closing(opened(form, given, options, threads)) as source:
        if check and read_once(source):
            raise ValueError(f"check=True reads the source twice, and this {type(src).__name__} gives its records once")
        chosen = encoding.chosen(source.streams, streams, refused_by(source))
        encodings = encoding.of(chosen, codec, level, dict_bytes)
        description = job.described(form.name, source, chosen, encodings, options)
        conversion = Conversion.planned(form, source, path, chosen, encodings, left_over(path, description))
        if dry_run:
            return conversion
        phases = PHASES[: 1 + check]
        with telling(progress, phases) as tell, under_way(path, description, restart) as directory:
            run = Run(source, chosen, encodings, directory, threads, tell, len(phases))
            records, resumed = run.write()
            if check:
                run.compare()
            job.unchanged(description, source)
        return conversion.done(records, resumed)
