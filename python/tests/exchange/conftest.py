from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from loaderx.utils import train_dict

from .published import Published
from .samples import dense_rows

PUBLISHED = "loaderx==1.5.7"
MAKE_PEER = Path(__file__).resolve().parents[3] / "scripts" / "peers.py"
UNAVAILABLE = 3


Peer = Callable[..., Path]
MAKING = 600
"""Seconds that a test may take: the first of them makes an environment, and pip may have a slow network."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Hooks get the items of all folders."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(MAKING))


@pytest.fixture(scope="session")
def peer() -> Peer:
    """The interpreter of the environment of a published release; its arguments are those of `scripts/peers.py`."""

    def made(*release: str) -> Path:
        done = subprocess.run([sys.executable, str(MAKE_PEER), *release], capture_output=True, text=True, check=False)
        if done.returncode == UNAVAILABLE and os.environ.get("LOADERX_REQUIRE_PEERS") != "1":
            pytest.skip(f"pip could not get {release[0]} (no network?); LOADERX_REQUIRE_PEERS=1 makes this a failure")
        assert done.returncode == 0, done.stderr
        return Path(done.stdout.strip())

    return made


@pytest.fixture(scope="session")
def interpreter(peer: Peer) -> Path:
    return peer(PUBLISHED)


@pytest.fixture(scope="session")
def published(interpreter: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    client = Published(interpreter, tmp_path_factory.mktemp("published"))
    yield client
    client.close()


@pytest.fixture(scope="session")
def dictionary() -> bytes:
    """A small dictionary: what it was trained on does not matter to whether records survive."""
    return bytes(train_dict(np.ascontiguousarray(dense_rows("|u1", (64,), 4000, seed=99)), tier="fast"))
