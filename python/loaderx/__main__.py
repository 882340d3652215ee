"""The command: `loaderx COMMAND ...`, or `python -m loaderx COMMAND ...`. The commands are those of `loaderx.commands`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from loaderx import ZrecordError, __version__
from loaderx.commands import ALL
from loaderx.progress import ProgressLine


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command. SystemExit with a message where it fails."""
    parser = argparse.ArgumentParser(prog="loaderx", description="Work on stores of loaderx.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in ALL:
        command.add(commands)
    options = parser.parse_args(arguments)
    progress = None if options.quiet else ProgressLine()
    try:
        options.run(options, progress)
    except (OSError, ImportError, TypeError, ValueError, IndexError, ZrecordError) as error:
        stop(progress, told(error))
    except KeyboardInterrupt:
        stop(progress, getattr(options, "interrupted", "interrupted; nothing is left of what was begun"))


def told(error: BaseException) -> str:
    """The message of an error; of the system's without its number."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def stop(progress: ProgressLine | None, reason: str) -> None:
    """SystemExit that tells the reason."""
    if progress:
        progress.end()
    raise SystemExit(f"loaderx: {reason}") from None


if __name__ == "__main__":
    main()
