from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from loaderx.utils import from_iterator, from_numpy, train_dict
from streams import COUNT, IMAGES, TOKENS
from support import Array, images, in_memory

if sys.platform != "win32":
    import resource

# Time limits are pytest's business: a slow machine must not fail a property. CI judges a change, so it tries the same examples each
# time; new ones are looked for wherever else the tests run.
settings.register_profile(
    "loaderx",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="LOADERX_SAME_EXAMPLES" in os.environ,
)
settings.load_profile("loaderx")


MOST_MEMORY = 4 << 30
"""Bytes that a process of the tests may take where the machine has less than twice as much."""
LEAVING = 120
"""Seconds that the end of the interpreter may take."""


def pytest_configure() -> None:
    """A test that takes memory without end is a MemoryError of that test, and doesn't end the machine's other programs.

    What maps files or is shared doesn't count. CUDA reserves more address space than any machine has memory.
    """
    if sys.platform == "linux" and "LOADERX_LARGE" not in os.environ and not Path("/dev/nvidiactl").exists():
        half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limits = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_DATA, (min([max(half, MOST_MEMORY), *limits]), hard))


def pytest_unconfigure() -> None:
    """A thread that hangs is waited for when the interpreter ends: not for ever."""
    if sys.__stderr__ is not None:
        faulthandler.dump_traceback_later(LEAVING, exit=True, file=sys.__stderr__)


@pytest.fixture(scope="session")
def dictionary() -> bytes:
    return train_dict(images(4000), tier="fast")


@pytest.fixture
def sigint() -> Iterator[None]:
    """SIGINT is KeyboardInterrupt, also where the tests were started in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def rows() -> Array:
    """Twenty dense records."""
    return np.arange(20 * 6, dtype=np.float32).reshape(20, 2, 3)


@pytest.fixture
def dense(tmp_path: Path, rows: Array) -> DenseDataset:
    """A store of `rows`, synced and opened anew."""
    with DenseDataset(tmp_path / "dense", dtype=np.float32, item_shape=(2, 3)) as ds:
        ds.append(rows)
    return DenseDataset(tmp_path / "dense")


@pytest.fixture
def records() -> list[Array]:
    """Nine ragged records of several ranks, an empty and a 0-d one among them."""
    shapes = [(3,), (2, 2), (), (0,), (1, 2, 3), (5,), (0, 4), (2, 1, 1, 2), (1,)]
    return [np.random.default_rng(i).integers(0, 99, shape).astype(np.int32) for i, shape in enumerate(shapes)]


@pytest.fixture
def ragged(tmp_path: Path, records: list[Array]) -> RaggedDataset:
    """A store of `records`, synced and opened anew."""
    with RaggedDataset(tmp_path / "ragged", dtype=np.int32) as ds:
        ds.append(records)
    return RaggedDataset(tmp_path / "ragged")


@pytest.fixture(scope="session")
def stream_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three aligned streams; see `streams.py`."""
    root = tmp_path_factory.mktemp("loader")
    from_numpy(root / "index", np.arange(COUNT))
    from_numpy(root / "image", IMAGES)
    from_iterator(root / "token", TOKENS, np.int32)
    return root


@pytest.fixture
def streams(stream_root: Path) -> Iterator[dict[str, Any]]:
    """Name -> dataset of the three, for a loader."""
    with MSDataset(stream_root, read_only=True) as ds:
        yield ds.streams


@pytest.fixture(scope="session")
def processes() -> Any:
    """Quick and clean forks: of a server that has imported everything and has no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["workers", "transforms", "loaderx.dataloader"])
    return context


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is such a thing: a sync takes no time there, so more of everything else meets."""
    shared = in_memory()
    if shared is None:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=shared) as directory:
        yield Path(directory)
