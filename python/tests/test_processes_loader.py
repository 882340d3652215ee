"""A loader with worker processes gives what one with threads gives. Errors: `test_processes_errors.py`. Ends: `test_processes_ends.py`.
Memory: `test_processes_memory.py`.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transforms
from loaderx.dataloader import DataLoader
from loaderx.dataloader.pipeline import Options, PipelineStopped
from loaderx.dataloader.processes import Processes
from loaderx.dataloader.threads import Threads
from loaderx.dataset import MSDataset
from loaderx.sampler import Sampler
from streams import COUNT, IMAGES, steps, unbroken
from support import run_python, same

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="descriptors over sockets"),
    pytest.mark.usefixtures("processes"),
]


def digest(loader: DataLoader, count: int) -> str:
    """Of everything in so many batches."""
    found = hashlib.sha256()
    for batch in itertools.islice(loader, count):
        found.update(repr([(name, values.__class__, len(values)) for name, values in batch.items()]).encode())
        for array in [batch["image"], batch["index"], *batch["token"]]:
            found.update(f"{array.dtype} {array.shape}".encode())
            found.update(array.tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
@pytest.mark.parametrize("prefetch", [1, 8])
@pytest.mark.parametrize("workers", [1, 3])
def test_the_same_batches_as_threads(streams: Any, workers: int, prefetch: int, method: str) -> None:
    with (
        DataLoader(streams, batch_size=5) as by_threads,
        DataLoader(streams, workers, 5, prefetch, worker_type="process", start_method=method) as by_processes,
    ):
        assert digest(by_processes, 40) == digest(by_threads, 40)


@pytest.mark.parametrize("worker_type", ["thread", "process"])
def test_whose_memory_arrays_have(streams: Any, worker_type: Any) -> None:
    """As the documentation says: dense ones of threads their own; others are views, which can be written and not resized."""
    with DataLoader(streams, 1, 5, worker_type=worker_type) as loader:
        batch = next(loader)
    assert batch["image"].flags.owndata == (worker_type == "thread")
    views = [batch["token"][0], batch["image"]] if worker_type == "process" else batch["token"][:1]
    for array in views:
        assert array.flags.writeable
        with pytest.raises(ValueError, match="does not own its data"):
            array.resize((array.size + 1,))


def test_resuming(streams: Any) -> None:
    with DataLoader(streams, 2, 5, worker_type="process") as loader:
        assert steps(loader, 7) == unbroken(7)
        state = loader.state_dict()
        loader.seek(1)
        assert steps(loader, 2) == unbroken(3)[1:]
    with DataLoader(streams, 3, 5, worker_type="process") as loader:
        loader.load_state_dict(state)
        assert steps(loader, 5) == unbroken(12)[7:]
    with DataLoader(streams, 1, 5, mode=1, step=2**63 - 9, worker_type="process") as loader:
        sampler = Sampler(COUNT, 5, 1)
        assert [batch["index"].tolist() for batch in itertools.islice(loader, 2)] == [
            sampler.batch_at(2**63 - 9 + i).tolist() for i in range(2)
        ]


def test_each_worker_makes_every_nth_step(streams: Any) -> None:
    with DataLoader(streams, 3, 5, transform=transforms.who, step=4, worker_type="process") as loader:
        makers = [next(loader)[0] for _ in range(12)]
    assert len(set(makers[:3])) == 3
    assert os.getpid() not in makers
    assert makers == makers[:3] * 4


def test_a_multi_stream_dataset(stream_root: Path) -> None:
    with MSDataset(stream_root, read_only=True) as ds, DataLoader(ds, 2, 5, worker_type="process") as loader:
        assert steps(loader, 9) == unbroken(9)


def check_same(got: Any, want: Any) -> None:
    """All the way down."""
    assert type(got) is type(want)
    if isinstance(want, np.ndarray):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        assert repr(got.tolist()) == repr(want.tolist())
        if type(want) is np.ndarray and not want.dtype.hasobject:
            assert got.flags.writeable
            assert got.flags.c_contiguous
            assert got.ctypes.data % 64 == 0 or not got.size
    elif isinstance(want, dict):
        assert list(got) == list(want)
        for key in want:
            check_same(got[key], want[key])
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            check_same(a, b)
    else:
        assert got == want


def test_results_of_every_kind(streams: Any) -> None:
    with (
        DataLoader(streams, 1, 5, transform=transforms.shapes) as by_threads,
        DataLoader(streams, 2, 5, transform=transforms.shapes, worker_type="process") as by_processes,
    ):
        for want, got in itertools.islice(zip(by_threads, by_processes, strict=True), 5):
            check_same(got, want)
            assert got["same"][0] is got["same"][1]
            got["strided"][...] = 9  # the consumer's to write


@pytest.mark.parametrize("value", [None, 3, (), {}, [], "text", ({"a": [None]},)])
def test_results_without_arrays(streams: Any, value: Any) -> None:
    with DataLoader(streams, 1, 5, transform=partial(transforms.give, value), worker_type="process") as loader:
        assert list(itertools.islice(loader, 40)) == [value] * 40


def test_torch_tensors(streams: Any) -> None:
    torch = pytest.importorskip("torch")
    with DataLoader(streams, 1, 5, transform=transforms.tensors, worker_type="process") as loader:
        batch = next(loader)
    assert torch.equal(batch["index"], torch.tensor(unbroken(1)[0]))
    assert batch["index"].data_ptr() % 64 == 0  # in shared memory
    assert torch.equal(batch["strided"], batch["index"][::2])
    assert batch["again"] is batch["index"]
    assert batch["gradient"].requires_grad
    assert batch["bfloat16"].dtype == torch.bfloat16
    assert batch["scalar"].shape == ()


def test_what_is_printed_comes_once(stream_root: Path) -> None:
    code = """
import itertools, sys
import transforms
from loaderx import DataLoader, MSDataset
if __name__ == "__main__":
    print("begin")
    with MSDataset(sys.argv[1], read_only=True) as ds:
        with DataLoader(ds, 2, 5, 1, transform=transforms.tell, worker_type="process", start_method=sys.argv[2]) as loader:
            for batch in itertools.islice(loader, 3): pass
"""
    for method in ("forkserver", "spawn"):
        done = run_python(code, str(stream_root), method, cwd=Path(__file__).parent)
        assert done.stderr == ""
        lines = done.stdout.splitlines()
        assert lines.count("begin") == 1
        for batch in unbroken(3):
            assert lines.count(f"made {batch}") == 1


SCRIPT = """
import sys
from loaderx import DataLoader, MSDataset

class Point:
    def __init__(self, batch): self.index = batch["index"]

def transform(batch): return Point(batch)

{guard}
    with MSDataset(sys.argv[1], read_only=True) as ds:
        with DataLoader(ds, 2, 5, transform=transform, worker_type="process", start_method=sys.argv[2]) as loader:
            point = next(loader)
            assert type(point) is Point
            print(point.index.tolist())
"""


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_functions_and_classes_of_a_script(stream_root: Path, tmp_path: Path, method: str) -> None:
    script = tmp_path / "script.py"
    for guard in ("if __name__ == '__main__':", "if True:"):
        script.write_text(SCRIPT.format(guard=guard))
        done = subprocess.run(
            [sys.executable, script, stream_root, method], capture_output=True, text=True, timeout=60, check=False
        )
        if guard == "if True:":
            assert "WorkerDiedError: step 0: worker process" in done.stderr
            assert "ended with exit code 1 before it could begin; standard error says why" in done.stderr
        else:
            assert (done.stdout, done.stderr) == (f"{unbroken(1)[0]}\n", "")


@pytest.mark.parametrize("kind", [Threads, Processes])
def test_any_step_is_waited_for(streams: Any, tmp_path: Path, kind: Any) -> None:
    """The step that is held up comes last, and no more are begun than the window allows."""
    slow = partial(transforms.wait_at, unbroken(1)[0], str(tmp_path / "go"))
    pipeline = kind(DataLoader(streams, batch_size=5, transform=slow)._plan, 0, Options(2, 4, 1 << 30, "thread", None))
    pipeline.start()
    try:
        for want in (1, 3, 5):
            step, made = pipeline.wait_any(60)
            assert made.error is None
            assert made.batch["index"].tolist() == unbroken(6)[step]
            if kind is Processes:
                assert step == want
            pipeline.release(step)
        assert pipeline._outstanding == 6
        with pytest.raises(TimeoutError, match=r"step 0: no batch within 0\.1 s"):
            pipeline.wait(0, 0.1)
        (tmp_path / "go").touch()
        assert pipeline.wait(0, 60).batch["index"].tolist() == unbroken(1)[0]
    finally:
        (tmp_path / "go").touch()
        pipeline.stop()
        pipeline.join(30)
    with pytest.raises(PipelineStopped):
        pipeline.wait_any(None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"worker_type": "fork"}, "worker_type: expected one of 'thread', 'process', found 'fork'"),
        ({"start_method": "fork"}, "start_method: expected one of 'forkserver', 'spawn', found 'fork'"),
    ],
)
def test_bad_arguments(streams: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataLoader(streams, batch_size=5, **options)


def test_a_loader_does_not_pickle_whatever_its_workers_are(streams: Any) -> None:
    with DataLoader(streams, batch_size=5, worker_type="process") as loader, pytest.raises(TypeError):
        pickle.dumps(loader)


def test_values_do_not_change_while_they_are_held(streams: Any) -> None:
    """Memory is used again only when all arrays on it are gone, a slice of one among them."""
    with DataLoader(streams, 2, 5, worker_type="process") as loader:
        slices = [next(loader)["image"][1:2, ::-1] for _ in range(12)]
        for _ in range(30):
            next(loader)
        for found, index in zip(slices, unbroken(12), strict=True):
            assert same(found, IMAGES[index][1:2, ::-1])
