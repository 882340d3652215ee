"""A run that is killed anywhere goes on bit for bit, in a new process each time."""

from __future__ import annotations

import hashlib
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataloader import DataLoader
from loaderx.dataloader.transforms import generator
from loaderx.dataset import MSDataset
from loaderx.sampler import Sampler
from streams import COUNT

RUN = """
import json, os, sys
import numpy as np
from loaderx import Buckets, DataLoader, MSDataset, Mixture

root, options, state_file, log = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], sys.argv[4]
mixed = options.pop("mixed")
last = options.pop("last")
streams = MSDataset(root)
if mixed:
    streams = Mixture({"a": streams, "b": MSDataset(root)}, {"a": 2, "b": 1})
if options.pop("bucketed", False):
    options["buckets"] = Buckets(streams.streams["token"], tokens=16, multiple_of=2)

def noisy(batch, rng):
    return batch | {"noise": rng.integers(0, 2**32, len(batch["index"]))}

with DataLoader(streams, transform=noisy, **options) as loader:
    if os.path.exists(state_file):
        with open(state_file) as file:
            loader.load_state_dict(json.load(file))
    with open(log, "a") as lines:
        while loader.step < last:
            step, batch = loader.step, next(loader)
            lines.write(json.dumps([step, batch["index"].tolist(), batch["noise"].tolist()]) + "\\n")
            lines.flush()
            with open(state_file + ".new", "w") as file:
                json.dump(loader.state_dict(), file)
            os.replace(state_file + ".new", state_file)
"""

KILLS = 4

MATRIX: list[dict[str, Any]] = [
    {"num_workers": 1, "batch_size": 5, "mode": 2, "mixed": False},
    {"num_workers": 4, "batch_size": 7, "mode": 1, "mixed": False, "prefetch_size": 9},
    {"num_workers": 3, "batch_size": 4, "mode": 0, "mixed": True, "rank": 1, "world_size": 2},
    {"num_workers": 2, "batch_size": 6, "mode": 2, "mixed": True},
    {"num_workers": 2, "bucketed": True, "mixed": False, "rank": 1, "world_size": 2},
]


def start(root: Path, options: dict[str, Any], folder: Path) -> subprocess.Popen[bytes]:
    arguments = [str(root), json.dumps(options), str(folder / "state"), str(folder / "log")]
    return subprocess.Popen([sys.executable, "-c", RUN, *arguments])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("options", MATRIX, ids=range(len(MATRIX)))
def test_killed_runs_add_up_to_the_unbroken_one(stream_root: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(MATRIX.index(options))
    last = 1500
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    assert start(stream_root, options | {"last": last}, whole).wait(120) == 0
    log = broken / "log"
    kills = 0
    while True:
        run = start(stream_root, options | {"last": last}, broken)
        # Somewhere in what is left, if it is not over by then.
        done = log.stat().st_size if log.exists() else 0
        enough = done + rng.integers(1, (whole / "log").stat().st_size // 4)
        while run.poll() is None and kills < KILLS and not (log.exists() and log.stat().st_size >= enough):
            time.sleep(0.001)
        if run.poll() is not None or kills == KILLS:
            assert run.wait(120) == 0
            break
        run.kill()
        run.wait()
        kills += 1
    assert kills >= 2
    expected = {}
    for line in (whole / "log").read_text().splitlines():
        step, *batch = json.loads(line)
        expected[step] = batch
    assert sorted(expected) == list(range(last))
    found: dict[int, Any] = {}
    for line in (broken / "log").read_text().splitlines():
        step, *batch = json.loads(line)
        assert found.setdefault(step, batch) == batch
    assert found == expected


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_every_step_restored_in_a_new_process(stream_root: Path, mode: int) -> None:
    """Every step of three passes, wrap points included; one process restores them all, each into a new loader or one in use."""
    code = """
import json, sys
from loaderx import DataLoader, MSDataset
states = json.loads(sys.argv[2])
with MSDataset(sys.argv[1]) as ds:
    used = DataLoader(ds, 1, 5, mode=int(sys.argv[3]))
    out = []
    for number, state in enumerate(states):
        loader = used if number % 2 else DataLoader(ds, 2, 5, 3, mode=int(sys.argv[3]))
        loader.load_state_dict(state)
        assert loader.state_dict() == state
        out.append(next(loader)["index"].tolist())
print(json.dumps(out))
"""
    states, run = [], []
    with MSDataset(stream_root) as ds, DataLoader(ds, batch_size=5, mode=mode) as loader:
        for _ in range(3 * COUNT // 5 + 2):
            states.append(loader.state_dict())
            run.append(next(loader)["index"].tolist())
    done = subprocess.run(
        [sys.executable, "-c", code, str(stream_root), json.dumps(states), str(mode)],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    assert json.loads(done.stdout) == run


def update(sha: Any, batch: dict[str, Any]) -> None:
    """Take in a batch bit for bit."""
    for name in sorted(batch):
        values = batch[name] if isinstance(batch[name], list) else [batch[name]]
        for array in values:
            sha.update(f"{name} {array.dtype.str} {array.shape}".encode())
            sha.update(array.tobytes())


def digest(loader: DataLoader, count: int) -> str:
    """Of the next batches."""
    sha = hashlib.sha256()
    for batch in loader.take(count):
        update(sha, batch)
    return sha.hexdigest()


def doubled(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    time.sleep(rng.random() / 5000)  # so that threads overtake one another
    return batch | {"noise": rng.random(3)}


@pytest.mark.parametrize("transform", [None, doubled])
def test_a_thousand_batches_are_the_same_however_they_are_made(streams: Any, transform: Any) -> None:
    options = {} if transform is None else {"transform": transform}
    expected = hashlib.sha256()
    for step in range(1000):
        indices = Sampler(COUNT, 5, 2).batch_at(step)
        batch = {name: stream[indices] for name, stream in streams.items()}
        update(expected, batch if transform is None else transform(batch, rng=generator(42, step, 0)))
    for workers, prefetch in itertools.product((1, 3, 16), (1, 8)):
        with DataLoader(streams, workers, 5, prefetch, **options) as loader:
            assert digest(loader, 1000) == expected.hexdigest()
