"""The loader as its user sees it. How it ends, and what goes on in threads: `test_pipeline.py`."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import subprocess
import sys
import threading
import time
import traceback
import urllib.error
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataloader import DataLoader
from loaderx.dataset import DenseDataset, MSDataset
from loaderx.sampler import Sampler
from loaderx.utils import from_iterator, from_numpy
from loaderx.zrecord import CorruptRecordError
from support import Array, all_same, same

COUNT = 23
SHAPES = [(i % 4,) if i % 3 else (2, i % 5) for i in range(COUNT)]
TOKENS = [np.full(shape, i, np.int32) for i, shape in enumerate(SHAPES)]
IMAGES = np.arange(COUNT * 6, dtype=np.uint16).reshape(COUNT, 2, 3)


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("loader")
    from_numpy(root / "index", np.arange(COUNT))
    from_numpy(root / "image", IMAGES)
    from_iterator(root / "token", TOKENS, np.int32)
    return root


@pytest.fixture
def streams(root: Path) -> Iterator[dict[str, Any]]:
    with MSDataset(root, read_only=True) as ds:
        yield ds.streams


def steps(loader: DataLoader, count: int) -> list[list[int]]:
    return [batch["index"].tolist() for batch in itertools.islice(loader, count)]


def unbroken(count: int, batch_size: int = 5, mode: int = 2, seed: int = 42) -> list[list[int]]:
    return [batch.tolist() for batch in itertools.islice(Sampler(COUNT, batch_size, mode, seed), count)]


@pytest.mark.parametrize("mode", Sampler.Mode)
def test_streams_line_up_at_the_samplers_indices(streams: Any, mode: Sampler.Mode) -> None:
    sampler = Sampler(COUNT, 7, mode)
    with DataLoader(streams, batch_size=7, mode=mode) as loader:
        for batch in itertools.islice(loader, 20):
            indices = sampler.next()
            assert list(batch) == ["image", "index", "token"]
            assert same(batch["index"], indices.astype(np.int64))
            assert same(batch["image"], IMAGES[indices])
            assert all_same(batch["token"], [TOKENS[i] for i in indices])


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("prefetch", [1, 3, 9])
def test_order_is_the_samplers_whatever_the_threads_do(streams: Any, workers: int, prefetch: int) -> None:
    delays = itertools.cycle([0, 0.002, 0.0005])

    def transform(batch: Any) -> Any:
        time.sleep(next(delays))
        return batch

    with DataLoader(streams, workers, 5, prefetch, transform=transform) as loader:
        assert steps(loader, 40) == unbroken(40)


def test_defaults(streams: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="256.*23|23.*256"):
        DataLoader(streams)
    from_numpy(tmp_path / "ds", np.arange(300))
    with DataLoader({"x": DenseDataset(tmp_path / "ds")}) as loader:
        assert (loader.batch_size, loader.mode, loader.seed, loader.step, loader.length) == (256, 2, 42, 0, 300)
        batch = next(loader)["x"]
        assert batch.shape == (256,)
        assert batch.flags.writeable
        assert batch.flags.owndata


def test_a_multi_stream_dataset_is_a_set_of_streams(root: Path) -> None:
    with MSDataset(root) as ds, DataLoader(ds, batch_size=5) as loader:
        assert list(loader.streams) == ds.names
        assert steps(loader, 9) == unbroken(9)


def test_anything_with_records_is_a_stream() -> None:
    class Squares:
        def __len__(self) -> int:
            return COUNT

        def __getitems__(self, index: Array) -> Any:
            return index * index

    with DataLoader({"square": Squares()}, batch_size=5) as loader:
        assert [b["square"].tolist() for b in itertools.islice(loader, 4)] == [[i * i for i in b] for b in unbroken(4)]


def test_transform_makes_the_batch(streams: Any) -> None:
    with DataLoader(streams, batch_size=5, transform=lambda batch: int(batch["index"].sum())) as loader:
        assert list(itertools.islice(loader, 6)) == [sum(batch) for batch in unbroken(6)]
    with DataLoader(streams, batch_size=5, transform=lambda batch: None) as loader:
        assert list(itertools.islice(loader, 6)) == [None] * 6


def test_transforms_run_at_once(streams: Any) -> None:
    barrier = threading.Barrier(3, timeout=30)
    with DataLoader(streams, num_workers=3, batch_size=5, transform=lambda batch: barrier.wait()) as loader:
        assert sorted(itertools.islice(loader, 3)) == [0, 1, 2]


class TwoArguments(Exception):
    """As in many a library: it can't be made from its own `args`."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")
        self.first = first


class Frozen(BaseException):
    __slots__ = ()


ERRORS: list[Callable[[], BaseException]] = [
    lambda: ValueError("plain"),
    lambda: TwoArguments(1, 2),
    lambda: Frozen(),
    lambda: subprocess.CalledProcessError(3, ["cmd"]),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    lambda: urllib.error.HTTPError("http://x", 404, "gone", Message(), None),
    lambda: SystemExit(3),
    lambda: KeyboardInterrupt(),
    lambda: GeneratorExit(),
]


@pytest.mark.parametrize("make", ERRORS)
@pytest.mark.parametrize("workers", [1, 4])
def test_an_error_comes_at_its_step_as_the_same_object(streams: Any, make: Any, workers: int) -> None:
    error = make()
    bad = unbroken(6)[5]

    def transform(batch: Any) -> Any:
        if batch["index"].tolist() == bad:
            raise error  # the user's line
        return batch

    with DataLoader(streams, workers, 5, transform=transform) as loader:
        assert steps(loader, 5) == unbroken(5)
        depths = set()
        for _ in range(3):
            with pytest.raises(type(error)) as caught:
                next(loader)
            assert caught.value is error
            lines = traceback.extract_tb(error.__traceback__)
            depths.add(len(lines))
            assert any(line.line == "raise error  # the user's line" for line in lines)
            assert loader.step == 5
        assert len(depths) == 1
        if sys.version_info >= (3, 11) and not isinstance(error, urllib.error.HTTPError):
            assert error.__notes__ == ["at step 5 of the DataLoader"]
        loader.seek(6)
        assert steps(loader, 2) == unbroken(8)[6:]


def test_seek_tries_a_failed_step_again(streams: Any) -> None:
    attempts = itertools.count()

    def transform(batch: Any) -> Any:
        if batch["index"].tolist() == unbroken(4)[3] and next(attempts) == 0:
            raise OSError("for now")
        return batch

    with DataLoader(streams, batch_size=5, transform=transform) as loader:
        assert steps(loader, 3) == unbroken(3)
        with pytest.raises(OSError, match="for now"):
            next(loader)
        loader.seek(3)
        assert steps(loader, 3) == unbroken(6)[3:]


def test_stop_iteration_does_not_end_the_loop_in_silence(streams: Any) -> None:
    with DataLoader(streams, batch_size=5, transform=lambda batch: next(iter(()))) as loader:
        with pytest.raises(RuntimeError, match="step 0: StopIteration was raised") as caught:
            next(loader)
        assert isinstance(caught.value.__cause__, StopIteration)


def test_an_error_of_a_read(tmp_path: Path) -> None:
    from_numpy(tmp_path / "ds", np.arange(COUNT), codec="raw")
    with (tmp_path / "ds" / "0.chunk").open("r+b") as file:
        file.seek(8 * 17)
        file.write(b"\xff")
    bad = next(step for step, batch in enumerate(unbroken(9)) if 17 in batch)
    with DenseDataset(tmp_path / "ds") as ds, DataLoader({"index": ds}, batch_size=5) as loader:
        assert steps(loader, bad) == unbroken(bad)
        with pytest.raises(CorruptRecordError, match="record 17"):
            next(loader)
        assert loader.step == bad


def test_a_closed_dataset(root: Path) -> None:
    ds = DenseDataset(root / "index")
    loader = DataLoader({"index": ds}, batch_size=5)
    ds.close()
    with loader, pytest.raises(ValueError, match="closed"):
        next(loader)


def test_timeout(streams: Any) -> None:
    go_on = threading.Event()

    def transform(batch: Any) -> Any:
        go_on.wait()
        return batch

    with DataLoader(streams, batch_size=5, transform=transform, timeout=0.05) as loader:
        for _ in range(2):
            with pytest.raises(TimeoutError, match=r"step 0: no batch within 0\.05 s"):
                next(loader)
        go_on.set()
        deadline = time.monotonic() + 30
        while not (found := list(first_or_nothing(loader))) and time.monotonic() < deadline:
            pass
        assert found == unbroken(1)


def first_or_nothing(loader: DataLoader) -> Iterator[list[int]]:
    try:
        yield next(loader)["index"].tolist()
    except TimeoutError:
        return


@pytest.mark.parametrize("mode", Sampler.Mode)
@pytest.mark.parametrize("batch_size", [1, 5, 23])
def test_every_resume_equals_the_unbroken_run(streams: Any, mode: int, batch_size: int) -> None:
    per_pass = COUNT // batch_size
    count = 3 * per_pass + 3
    run = unbroken(count + 2, batch_size, mode)
    loader = DataLoader(streams, 2, batch_size, 1, mode=mode)
    wraps = {s + d for s in (0, per_pass, 2 * per_pass, 3 * per_pass) for d in (-1, 0, 1) if s + d >= 0}
    for step in sorted(wraps, reverse=True):
        loader.seek(step)
        assert loader.step == step
        assert steps(loader, 2) == run[step : step + 2]
    loader.close()
    with DataLoader(streams, 2, batch_size, mode=mode, step=per_pass) as fresh:
        assert steps(fresh, 2) == run[per_pass : per_pass + 2]


def test_seek_is_exact_with_batches_in_flight(streams: Any) -> None:
    with DataLoader(streams, batch_size=5, prefetch_size=8) as loader:
        assert steps(loader, 3) == unbroken(3)
        loader.seek(loader.step)
        assert steps(loader, 2) == unbroken(5)[3:]
        loader.seek(1)
        assert steps(loader, 3) == unbroken(4)[1:]
        loader.seek(10**12)
        assert steps(loader, 1) == [Sampler(COUNT, 5, 2).batch_at(10**12).tolist()]


def test_state_goes_on_exactly(streams: Any) -> None:
    with DataLoader(streams, batch_size=5) as loader:
        assert steps(loader, 7) == unbroken(7)
        state = loader.state_dict()
    assert state["step"] == 7
    restored = json.loads(json.dumps(state))
    with DataLoader(streams, num_workers=1, batch_size=5, prefetch_size=1) as other:
        other.load_state_dict(restored)
        assert other.step == 7
        assert other.state_dict() == state
        assert steps(other, 4) == unbroken(11)[7:]


def test_state_goes_on_in_another_process(root: Path) -> None:
    code = """
import itertools, json, sys
from loaderx import DataLoader, MSDataset
with MSDataset(sys.argv[1]) as ds, DataLoader(ds, batch_size=5) as loader:
    loader.load_state_dict(json.loads(sys.argv[2]))
    print([batch["index"].tolist() for batch in itertools.islice(loader, 3)])
"""
    with MSDataset(root) as ds, DataLoader(ds, batch_size=5) as loader:
        steps(loader, 4)
        state = json.dumps(loader.state_dict())
    done = subprocess.run(
        [sys.executable, "-c", code, str(root), state], capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == unbroken(7)[4:]


def test_many_steps_over_few_records(tmp_path: Path) -> None:
    from_numpy(tmp_path / "ds", np.arange(10), codec="raw")
    sampler = Sampler(10, 3, 2)
    with DenseDataset(tmp_path / "ds") as ds, DataLoader({"x": ds}, num_workers=2, batch_size=3) as loader:
        for batch in itertools.islice(loader, 10_000):
            assert batch["x"].tolist() == sampler.next().tolist()
        pipeline = loader._pipeline
        assert pipeline is not None
        assert len(pipeline.results) <= 6
        assert pipeline.tickets.qsize() <= 6
        assert pipeline.arrivals.qsize() <= 12
        assert loader.step == 10_000


def test_several_consumers_share_the_batches(streams: Any) -> None:
    taken: list[list[int]] = []

    def consume() -> None:
        for _ in range(25):
            taken.append(next(loader)["index"].tolist())

    with DataLoader(streams, batch_size=5) as loader:
        threads = [threading.Thread(target=consume) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert loader.step == 100
    assert sorted(taken) == sorted(unbroken(100))


def test_an_iterator_of_itself_without_a_length(streams: Any) -> None:
    with DataLoader(streams, batch_size=5) as loader:
        assert iter(loader) is loader
        with pytest.raises(TypeError, match=r"never ends, so it has no length; itertools\.islice"):
            len(loader)
        assert loader
        assert repr(loader) == (
            "DataLoader(streams=['image', 'index', 'token'], length=23, batch_size=5, mode=CYCLIC, seed=42, step=0)"
        )
    with pytest.raises(TypeError, match="pickle its datasets and its state_dict"):
        pickle.dumps(loader)


def test_after_close(streams: Any) -> None:
    loader = DataLoader(streams, batch_size=5)
    next(loader)
    loader.close()
    loader.close()
    assert loader.closed
    assert list(loader) == []
    with pytest.raises(StopIteration):
        next(loader)
    assert "closed" in repr(loader)
    never_started = DataLoader(streams, batch_size=5)
    never_started.close()
    assert list(never_started) == []


def test_close_within_the_loop(streams: Any) -> None:
    seen = []
    loader = DataLoader(streams, batch_size=5)
    for batch in loader:
        seen.append(batch)
        if len(seen) == 3:
            loader.close()
    assert len(seen) == 3


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"streams": {}}, ValueError, "streams: expected at least one stream, found none"),
    ({"streams": []}, TypeError, "streams: expected a mapping of names to datasets, found list"),
    ({"streams": {"x": 5}}, TypeError, "streams: 'x': expected a dataset, found int"),
    ({"streams": {"x": np.zeros(9)}}, TypeError, "streams: 'x': expected a dataset, found ndarray"),
    ({"batch_size": 0}, ValueError, "batch_size: expected at least 1, found 0"),
    ({"batch_size": -3}, ValueError, "batch_size: expected at least 1, found -3"),
    ({"batch_size": 2.0}, TypeError, "batch_size: expected an integer, found 2.0"),
    ({"batch_size": 24}, ValueError, "24.*23|23.*24"),
    ({"num_workers": 0}, ValueError, "num_workers: expected at least 1, found 0"),
    ({"num_workers": True}, TypeError, "num_workers: expected an integer, found the bool True"),
    ({"num_workers": "4"}, TypeError, "num_workers"),
    ({"prefetch_size": 0}, ValueError, "prefetch_size: expected at least 1, found 0"),
    ({"prefetch_size": None}, TypeError, "prefetch_size"),
    ({"mode": 3}, ValueError, "mode: expected one of"),
    ({"mode": "cyclic"}, TypeError, "mode"),
    ({"seed": -1}, ValueError, "seed: expected at least 0"),
    ({"step": -1}, ValueError, "step: expected at least 0, found -1"),
    ({"step": 1.5}, TypeError, "step"),
    ({"step": 2**64}, ValueError, "step"),
    ({"transform": 5}, TypeError, "transform: expected a callable, found 5"),
    ({"transform": None}, TypeError, "transform: expected a callable, found None"),
    ({"timeout": 0}, ValueError, "timeout: expected more than 0 seconds"),
    ({"timeout": "1"}, TypeError, "timeout: expected seconds or None"),
]


@pytest.mark.parametrize(("arguments", "error", "text"), BAD, ids=range(len(BAD)))
def test_bad_arguments(streams: Any, arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        DataLoader(**({"streams": streams, "batch_size": 5} | arguments))


def test_streams_of_unequal_length(streams: Any, tmp_path: Path) -> None:
    from_numpy(tmp_path / "short", np.zeros(3))
    with (
        DenseDataset(tmp_path / "short") as short,
        pytest.raises(
            ValueError, match="equally many records in each, found {'image': 23, 'index': 23, 'token': 23, 'short': 3}"
        ),
    ):
        DataLoader(streams | {"short": short}, batch_size=2)
    with (
        DenseDataset(tmp_path / "none", dtype="i4", item_shape=()) as none,
        pytest.raises(ValueError, match="at least one record, found {'none': 0}"),
    ):
        DataLoader({"none": none}, batch_size=1)


def test_a_batch_larger_than_the_length(streams: Any) -> None:
    with DataLoader(streams, batch_size=30, mode=0) as loader:
        assert steps(loader, 1) == [[*range(23), *range(7)]]
    with DataLoader(streams, batch_size=30, mode=1) as loader:
        assert len(steps(loader, 1)[0]) == 30


def test_states_that_are_refused(streams: Any) -> None:
    with DataLoader(streams, batch_size=5) as loader:
        state = loader.state_dict()
        for name, value in [
            ("seed", 1),
            ("mode", 0),
            ("batch_size", 6),
            ("length", 24),
            ("version", 9),
            ("order_version", 9),
        ]:
            with pytest.raises(ValueError, match=f"state: {name}: expected this loader's {state[name]}, found {value}"):
                loader.load_state_dict(state | {name: value})
        with pytest.raises(ValueError, match=r"missing: \['seed'\], unknown: \['sede'\]"):
            loader.load_state_dict({("sede" if name == "seed" else name): value for name, value in state.items()})
        with pytest.raises(TypeError, match=r"state: step: expected an integer, found 1\.0"):
            loader.load_state_dict(state | {"step": 1.0})
        with pytest.raises(ValueError, match="state: step: expected at least 0"):
            loader.load_state_dict(state | {"step": -1})
        with pytest.raises(TypeError, match="state: expected a mapping, found list"):
            loader.load_state_dict(list(state))  # type: ignore[arg-type]
        assert loader.step == 0
        assert len(json.dumps(state)) < 1024


def test_a_forked_child_goes_on_at_its_step(streams: Any) -> None:
    with DataLoader(streams, batch_size=5) as loader:
        assert steps(loader, 3) == unbroken(3)
        reading, writing = os.pipe()
        child = fork_quietly()
        if child == 0:
            try:
                found = steps(loader, 4)
                loader.close()
                os.write(writing, json.dumps(found).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            assert json.loads(pipe.read()) == unbroken(7)[3:]
        os.waitpid(child, 0)
        assert steps(loader, 2) == unbroken(5)[3:]


def fork_quietly() -> int:
    """Fork although there are threads: that it works is what is tested."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()
