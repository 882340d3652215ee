"""A run that is killed anywhere goes on bit for bit, in a new process each time."""

from __future__ import annotations

import hashlib
import itertools
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transforms
from loaderx.dataloader import Buckets, DataLoader, Mixture
from loaderx.dataloader.transforms import generator
from loaderx.dataset import MSDataset
from loaderx.sampler import Sampler
from streams import COUNT

RUN = """
import json, multiprocessing, os, sys
import transforms
from loaderx import Buckets, DataLoader, MSDataset, Mixture

root, state_file, choice, options, worlds, last = sys.argv[1], sys.argv[2], *map(json.loads, sys.argv[3:])

def opened():
    streams = MSDataset(root, read_only=True)
    if choice == "mixture":
        return Mixture({"a": streams, "b": MSDataset(root, read_only=True)}, {"a": 2, "b": 1}), {}
    if choice == "buckets":
        return streams, {"buckets": Buckets(streams.streams["token"], tokens=16, multiple_of=2)}
    return streams, {}

if __name__ == "__main__":
    multiprocessing.set_forkserver_preload(["transforms", "loaderx.dataloader"])
    streams, more = opened()
    ranks = [{"rank": rank, "world_size": worlds, "uneven": True} for rank in range(worlds)]
    loaders = [DataLoader(streams, transform=transforms.marked, **options, **more, **rank) for rank in ranks]
    if os.path.exists(state_file):
        with open(state_file) as file:
            state = json.load(file)
        for loader in loaders:
            loader.load_state_dict(state)
    while last is None or loaders[0].step < last:
        step = loaders[0].step
        parts = [next(loader) for loader in loaders]
        print(json.dumps([step, [part["index"].tolist() for part in parts], [part["noise"].tolist() for part in parts]]), flush=True)
        with open(state_file + ".new", "w") as file:
            json.dump(loaders[step % worlds].state_dict(), file)  # whichever rank saves it
        os.replace(state_file + ".new", state_file)
"""

KILLS = 4
NO_PROCESSES = pytest.mark.skipif(sys.platform == "win32", reason="descriptors over sockets")

CHOICES = ["all", "indices", "weights", "mixture", "buckets"]
"""What is drawn from, each with interrupts of its own: twenty in all."""


def drawn_options(rng: np.random.Generator, choice: str) -> dict[str, Any]:
    """A configuration, in terms that JSON has."""
    options: dict[str, Any] = {
        "num_workers": int(rng.integers(1, 4)),
        "prefetch_size": int(rng.integers(1, 10)),
        "mode": int(rng.integers(3)),
        "seed": int(rng.integers(2**63)),
    }
    if choice == "buckets":
        return options | {"mode": int(rng.choice([0, 2]))}
    options["batch_size"] = int(rng.integers(1, 13))
    if choice == "indices":
        options["indices"] = rng.integers(-COUNT, COUNT, 15).tolist()
    if choice == "weights":
        options |= {"weights": rng.integers(0, 4, COUNT).tolist(), "mode": 1}
    return options


def life(root: Path, state: Path, choice: str, options: dict[str, Any], world: int, last: int | None) -> Any:
    """A process that goes on where the state is, with all ranks of a world."""
    told = [json.dumps(what) for what in (choice, options, world, last)]
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(root), str(state), *told],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
    )


def whole_run(root: Path, choice: str, options: dict[str, Any], count: int) -> list[list[int]]:
    """The records of each step, without an interrupt, a transform and other ranks."""
    options = options | {"num_workers": 1, "prefetch_size": 1, "worker_type": "thread"}
    with MSDataset(root, read_only=True) as ds:
        streams: Any = Mixture({"a": ds, "b": ds}, {"a": 2, "b": 1}) if choice == "mixture" else ds
        if choice == "buckets":
            lengths: Any = ds.streams["token"]
            options["buckets"] = Buckets(lengths, tokens=16, multiple_of=2)
        with DataLoader(streams, **options) as loader:
            return [batch["index"].tolist() for batch in loader.take(count)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(len(CHOICES)))
def test_killed_runs_add_up_to_the_unbroken_one(stream_root: Path, tmp_path: Path, number: int) -> None:
    """Killed at random steps, each time going on in another world, by threads or by processes."""
    rng, choice = np.random.default_rng(number), CHOICES[number]
    options = drawn_options(rng, choice)
    state = tmp_path / "state"
    found: dict[int, list[int]] = {}
    for kill in range(KILLS + 1):
        by_processes = bool(rng.random() < 0.4) and sys.platform != "win32"
        options["worker_type"] = "process" if by_processes else "thread"
        world = int(rng.integers(1, 3 if by_processes else 6))
        last = None if kill < KILLS else max(found) + 20
        before = max(found, default=-1)
        with life(stream_root, state, choice, options, world, last) as run:
            for line in itertools.islice(run.stdout, None if last else int(rng.integers(1, 150))):
                enter(found, line, options["seed"], world)
            if last is None:
                assert run.poll() is None
                run.kill()
            # What it said before it died counts: its consumer has that.
            for line in run.stdout:
                if line.endswith("\n"):
                    enter(found, line, options["seed"], world)
        assert run.returncode == (-signal.SIGKILL if last is None else 0)
        assert max(found) > before
    assert sorted(found) == list(range(len(found)))
    assert list(map(found.get, range(len(found)))) == whole_run(stream_root, choice, options, len(found))


def enter(found: dict[int, list[int]], line: str, seed: int, world: int) -> None:
    """A step as all ranks of a world have it. Where it comes again it is the same, and so are its random numbers."""
    step, parts, noise = json.loads(line)
    batch = list(itertools.chain(*parts))
    assert found.setdefault(step, batch) == batch
    assert len(parts) == world
    places = [len(batch) * rank // world for rank in range(world + 1)]
    assert [len(part) for part in parts] == [after - before for before, after in itertools.pairwise(places)]
    assert noise == [generator(seed, step, place).integers(0, 2**32, 2).tolist() for place in places[:-1]]


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


@pytest.mark.parametrize(
    ("worker_type", "transform", "mode"),
    [
        ("thread", None, Sampler.Mode.CYCLIC),
        ("thread", None, Sampler.Mode.IID),
        ("thread", transforms.noisy, Sampler.Mode.CYCLIC),
        ("thread", transforms.noisy, Sampler.Mode.IID),
        pytest.param("process", None, Sampler.Mode.CYCLIC, marks=NO_PROCESSES),
        pytest.param("process", transforms.noisy, Sampler.Mode.IID, marks=NO_PROCESSES),
    ],
)
def test_a_thousand_batches_are_the_same_however_they_are_made(
    streams: Any, processes: Any, worker_type: Any, transform: Any, mode: int
) -> None:
    """SHA-256 of all that is in them, beside records that are read one batch after the other."""
    options = {} if transform is None else {"transform": transform}
    expected = hashlib.sha256()
    sampler = Sampler(COUNT, 5, mode)
    for step in range(1000):
        indices = sampler.batch_at(step)
        batch = {name: stream[indices] for name, stream in streams.items()}
        update(expected, batch if transform is None else transform(batch, rng=generator(42, step, 0)))
    every = itertools.product((1, 3, 16), (1, 8))
    for workers, prefetch in every if worker_type == "thread" else [(1, 8), (3, 1), (16, 8)]:
        with DataLoader(streams, workers, 5, prefetch, mode, worker_type=worker_type, **options) as loader:
            assert digest(loader, 1000) == expected.hexdigest(), (workers, prefetch)
