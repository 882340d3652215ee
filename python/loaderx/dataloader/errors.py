"""Errors of a loader's workers."""

from __future__ import annotations


class WorkerDiedError(RuntimeError):
    """A worker process ended before its step was made."""


class WorkerError(RuntimeError):
    """An exception of a worker process whose own type could not be brought here."""
