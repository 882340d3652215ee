"""Errors of a loader."""

from __future__ import annotations


class BatchTimeoutError(TimeoutError):
    """No batch came within the loader's timeout. The next call waits for the same one."""


class WorkerDiedError(RuntimeError):
    """A worker process ended before its step was made."""


class WorkerError(RuntimeError):
    """An exception of a worker process whose own type could not be brought here."""
