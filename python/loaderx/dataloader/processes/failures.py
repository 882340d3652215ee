"""Exceptions that cross from a worker to the consumer, and what is raised when a worker is gone.

An exception comes with its own type wherever that can be: pickled in its class's way; without a call of `__init__` where that
takes other arguments than it passes on; and as a `WorkerError` that tells all of it where neither gives the same type and message.
Its traceback can't cross. It comes as text, as the cause, so that Python prints it above the error.
"""

from __future__ import annotations

import contextlib
import pickle
import signal
import traceback
from typing import Any, NamedTuple

from loaderx.arguments import add_note
from loaderx.dataloader.errors import WorkerDiedError, WorkerError


class WorkerTraceback(Exception):  # noqa: N818 - it is a text, never raised
    """Where a worker raised what this is the cause of."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Failure(NamedTuple):
    """An exception on its way."""

    pickled: bytes | None
    name: str
    text: str
    notes: tuple[str, ...] = ()
    of_step: bool = True
    """As in `Made`."""


def portable(error: BaseException, of_step: bool = True) -> Failure:
    """The exception as something that surely pickles."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()
    name = f"{type(error).__module__}.{type(error).__qualname__}: {told(error)}"
    notes = tuple(note for note in getattr(error, "__notes__", ()) if isinstance(note, str))
    for candidate in (error, Bare(error)):
        try:
            pickled = pickle.dumps(candidate, pickle.HIGHEST_PROTOCOL)
            copy = pickle.loads(pickled)
            if type(copy) is type(error) and told(copy) == told(error):
                return Failure(pickled, name, text, notes, of_step)
        except Exception:  # whatever a class does in there, the next way may work
            continue
    return Failure(None, name, text, notes, of_step)


def restored(failure: Failure, step: int) -> BaseException:
    """The exception as the consumer gets it."""
    error: BaseException | None = None
    if failure.pickled is not None:
        with contextlib.suppress(Exception):  # its class may be there in the worker only
            error = pickle.loads(failure.pickled)
    if error is None:
        error = WorkerError(failure.name.removeprefix("builtins."))
        for note in failure.notes or [f"at step {step} of the DataLoader"]:
            add_note(error, note)
    error.__cause__ = WorkerTraceback(failure.text)
    return error


def told(error: BaseException) -> str:
    """The message; a user's class may fail to give one."""
    try:
        return str(error)
    except Exception as reason:
        return f"<no message: {type(reason).__name__}>"


class Bare:
    """Pickles as an exception that is made without its `__init__`."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return bare, (type(self._error), self._error.args, self._error.__dict__)


def bare(kind: type[BaseException], arguments: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    """An exception of this type with all that it holds."""
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(state)
    return error


HINTS = {
    "SIGKILL": "the system does that where memory runs out",
    "SIGSEGV": "a fault in native code; PYTHONFAULTHANDLER=1 shows where",
    "SIGBUS": "a mapped file was cut, or its disk is full",
}


def died(step: int, pid: int | None, exit_code: int | None, *, started: bool) -> WorkerDiedError:
    """The error at `step`, whose worker is gone."""
    how = f"step {step}: worker process {pid} "
    if exit_code is None:
        how += "ended, and its exit code is not known"
    elif exit_code < 0:
        name = signal_name(-exit_code)
        how += f"was killed by {name}"
        if name in HINTS:
            how += f" ({HINTS[name]})"
    else:
        how += f"ended with exit code {exit_code}"
        if not started:
            how += " before it could begin; standard error says why (a script needs `if __name__ == '__main__':`)"
    return WorkerDiedError(how)


def signal_name(number: int) -> str:
    """SIGKILL for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
