"""Children of a fork that happens while other threads read and append."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from loaderx.dataset import DenseDataset
from loaderx.utils import from_numpy

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
FORKS = 30


def test_a_child_reads_whatever_the_parents_threads_were_doing(tmp_path: Path) -> None:
    values = np.arange(400)
    from_numpy(tmp_path / "s", values, codec="raw")
    done = threading.Event()
    dataset = DenseDataset(tmp_path / "s")

    def append() -> None:
        while not done.is_set():
            dataset.append(values[:2])

    def gather() -> None:
        while not done.is_set():
            dataset[values]

    threads = [threading.Thread(target=work) for work in (append, gather, gather)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(FORKS):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if child == 0:
                signal.alarm(30)  # ends a child that waits for a thread it doesn't have
                os._exit(0 if np.array_equal(dataset[values], values) else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        done.set()
        for thread in threads:
            thread.join()
        dataset.close()
