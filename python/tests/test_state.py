"""Resuming, by `seek` and by state, equals the unbroken run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import timeit
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataloader import DataLoader
from loaderx.dataset import DenseDataset, MSDataset
from loaderx.sampler import Sampler
from loaderx.utils import from_numpy
from streams import COUNT, steps, unbroken
from support import fork


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


def test_state_goes_on_in_another_process(stream_root: Path) -> None:
    code = """
import itertools, json, sys
from loaderx import DataLoader, MSDataset
with MSDataset(sys.argv[1]) as ds, DataLoader(ds, batch_size=5) as loader:
    loader.load_state_dict(json.loads(sys.argv[2]))
    print([batch["index"].tolist() for batch in itertools.islice(loader, 3)])
"""
    with MSDataset(stream_root) as ds, DataLoader(ds, batch_size=5) as loader:
        steps(loader, 4)
        state = json.dumps(loader.state_dict())
    done = subprocess.run(
        [sys.executable, "-c", code, str(stream_root), state], capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == unbroken(7)[4:]


def test_states_that_are_refused(streams: Any) -> None:
    with DataLoader(streams, batch_size=5) as loader:
        state = loader.state_dict()
        for name, value in [
            ("seed", 1),
            ("mode", 0),
            ("batch_size", 6),
            ("order_version", 9),
        ]:
            with pytest.raises(ValueError, match=f"state: {name}: expected this loader's {state[name]}, found {value}"):
                loader.load_state_dict(state | {name: value})
        with pytest.raises(ValueError, match="state: version: expected 2, found 1"):
            loader.load_state_dict({"version": 1})
        own = state["fingerprint"]
        wrong: list[tuple[str, Any]] = [
            ("length", [24]),
            ("schema", "x"),
            ("generation", [1, 0, 0]),
            ("selection", "x"),
        ]
        for field, other in wrong:
            text = re.escape(f"state: fingerprint: {field}: expected this loader's {own[field]!r}, found {other!r}")
            with pytest.raises(ValueError, match=text):
                loader.load_state_dict(state | {"fingerprint": own | {field: other}})
        with pytest.raises(ValueError, match=r"state: fingerprint: expected the fields .* missing: \['length'\]"):
            loader.load_state_dict(state | {"fingerprint": {name: own[name] for name in own if name != "length"}})
        with pytest.raises(TypeError, match="state: fingerprint: expected a mapping, found 3"):
            loader.load_state_dict(state | {"fingerprint": 3})
        with pytest.raises(ValueError, match=r"missing: \['seed'\], unknown: \['sede'\]"):
            loader.load_state_dict({("sede" if name == "seed" else name): value for name, value in state.items()})
        with pytest.raises(TypeError, match=r"state: step: expected an integer, found 1\.0"):
            loader.load_state_dict(state | {"step": 1.0})
        with pytest.raises(ValueError, match="state: step: expected 0 to 9223372036854775807, found -1"):
            loader.load_state_dict(state | {"step": -1})
        with pytest.raises(TypeError, match="state: expected a mapping, found list"):
            loader.load_state_dict(list(state))  # type: ignore[arg-type]
        assert loader.step == 0
        assert len(json.dumps(state)) < 1024


def test_a_state_costs_little_and_is_small(streams: Any) -> None:
    with DataLoader(streams, batch_size=5, step=10**12) as loader:
        assert len(json.dumps(loader.state_dict())) < 1024
        seconds = min(timeit.repeat(loader.state_dict, number=100, repeat=20)) / 100
        assert seconds < 100e-6  # 2 on a quiet machine
        assert steps(loader, 1) == [Sampler(COUNT, 5, 2).batch_at(10**12).tolist()]


def test_a_state_outlives_its_datasets(stream_root: Path) -> None:
    ds = MSDataset(stream_root)
    with DataLoader(ds, batch_size=5) as loader:
        state = loader.state_dict()
        ds.close()
        assert loader.state_dict() == state


def test_data_that_changed_is_refused(tmp_path: Path) -> None:
    from_numpy(tmp_path / "ds", np.arange(100))

    def state() -> dict[str, Any]:
        with DenseDataset(tmp_path / "ds") as ds, DataLoader({"index": ds}, batch_size=5) as loader:
            return loader.state_dict()

    before = state()
    with DenseDataset(tmp_path / "ds") as ds:
        ds.append(np.arange(5))
    grown = state()
    with DenseDataset(tmp_path / "ds") as ds:
        ds.delete(range(5))
    with DenseDataset(tmp_path / "ds") as ds, DataLoader({"index": ds}, batch_size=5) as loader:
        with pytest.raises(
            ValueError, match=r"state: fingerprint: length: expected this loader's \[100\], found \[105\]"
        ):
            loader.load_state_dict(grown)
        with pytest.raises(ValueError, match="state: fingerprint: generation"):
            loader.load_state_dict(before)
        loader.seek(before["step"])


def test_a_forked_child_goes_on_at_its_step(streams: Any) -> None:
    with DataLoader(streams, batch_size=5) as loader:
        assert steps(loader, 3) == unbroken(3)
        reading, writing = os.pipe()
        child = fork()
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
