"""`loaderx.torch`: batches as tensors, and on their way to a GPU. Where there is none, something that is slower stands in for it."""

from __future__ import annotations

import itertools
import pickle
import random
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from frameworks import framework
from loaderx.dataloader import DataLoader
from loaderx.dataset import Packed
from streams import IMAGES, TOKENS
from support import all_same, run_python, same

torch = framework("torch")

from loaderx.torch import to_device  # noqa: E402
from loaderx.torch.cuda import Cuda  # noqa: E402
from loaderx.torch.pinned import SMALLEST, Pool, size_class  # noqa: E402
from loaderx.torch.tensors import SAME_BITS, tensor  # noqa: E402
from loaderx.torch.transfer import Lane  # noqa: E402

# The first import of a framework reads a gigabyte.
pytestmark = pytest.mark.timeout(300)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_the_published_example(streams: Any) -> None:
    """As printed, with the CPU as the device."""
    streams.pop("token")
    code = """
import torch

def to_device(batch):
    return {k: torch.from_numpy(v).to(device, non_blocking=True)
            for k, v in batch.items()}

loader = DataLoader(streams, transform=to_device, batch_size=20)
for batch in loader:
    model(batch)
"""
    seen: list[dict[str, Any]] = []

    class Enough(Exception):
        pass

    def model(batch: dict[str, Any]) -> None:
        seen.append(batch)
        if len(seen) == 5:
            raise Enough

    names: dict[str, Any] = {"DataLoader": DataLoader, "streams": streams, "device": "cpu", "model": model}
    with pytest.raises(Enough):
        exec(code, names)
    names["loader"].close()
    for batch in seen:
        assert same(batch["image"].numpy(), IMAGES[batch["index"].numpy()])


@needs_gpu
def test_the_published_example_with_pinning(streams: Any) -> None:
    streams.pop("token")
    code = """
import torch

device = "cuda:0"
def to_device(batch):
    return {k: torch.from_numpy(v).pin_memory().to(device, non_blocking=True)
            for k, v in batch.items()}
"""
    names: dict[str, Any] = {}
    exec(code, names)
    with DataLoader(streams, batch_size=20, transform=names["to_device"]) as loader:
        for batch in itertools.islice(loader, 5):
            assert same(batch["image"].cpu().numpy(), IMAGES[batch["index"].cpu().numpy()])


@pytest.mark.filterwarnings("error")
def test_batches_become_tensors(streams: Any) -> None:
    with DataLoader(streams, batch_size=5, transform=to_device("cpu")) as loader, DataLoader(streams, 1, 5) as twin:
        for batch, arrays in itertools.islice(zip(loader, twin, strict=True), 20):
            assert list(batch) == list(arrays)
            assert same(batch["image"].numpy(), arrays["image"])
            assert same(batch["index"].numpy(), arrays["index"])
            assert all_same([record.numpy() for record in batch["token"]], arrays["token"])


@pytest.mark.filterwarnings("error")
def test_on_a_cpu_nothing_is_copied(streams: Any) -> None:
    batch = {"image": streams["image"][[1, 2]], "token": streams["token"][[3, 4, 5]]}
    tensors = to_device("cpu")(batch)
    assert tensors["image"].data_ptr() == batch["image"].ctypes.data
    tensors["image"].zero_()
    assert not batch["image"].any()
    assert [t.data_ptr() for t in tensors["token"] if t.numel()] == [a.ctypes.data for a in batch["token"] if a.size]


@pytest.mark.filterwarnings("error")
def test_what_torch_cannot_show_is_copied() -> None:
    array = np.arange(6).reshape(2, 3)
    array.flags.writeable = False
    assert same(tensor(array).numpy(), array)
    assert same(tensor(np.arange(6)[::-1]).numpy(), np.arange(6)[::-1].copy())
    assert same(tensor(np.arange(6)[::2]).numpy(), np.arange(6)[::2].copy())


@pytest.mark.parametrize("name", SAME_BITS)
@pytest.mark.parametrize("shape", [(), (4,), (0, 2), (3, 5)])
def test_dtypes_of_ml_dtypes(name: str, shape: tuple[int, ...]) -> None:
    """The same numbers, on the same memory."""
    dtype = np.dtype(getattr(framework("ml_dtypes"), name))
    array = np.resize([1.0, 2.0, 0.5, 4.0], shape).astype(dtype)
    found = tensor(array)
    assert str(found.dtype) == f"torch.{name}"
    assert found.shape == shape
    assert found.data_ptr() == array.ctypes.data or not array.size
    assert same(found.to(torch.float32).numpy(), array.astype(np.float32))


def test_bits_that_are_stored_as_integers(streams: Any) -> None:
    """As stores have it that are older than bfloat16 in stores."""
    ml_dtypes = framework("ml_dtypes")
    values = np.array([1.5, -2.0, 3.25], ml_dtypes.bfloat16)
    assert tensor(values.view(np.uint16)).view(torch.bfloat16).tolist() == [1.5, -2.0, 3.25]


@pytest.mark.parametrize("array", [np.array(["a"]), np.zeros(2, ">i4"), np.zeros(2, "M8[s]"), np.array([None])])
def test_dtypes_that_torch_lacks(array: Any) -> None:
    with pytest.raises(TypeError, match=r"batch\['x'\]\[1\]: dtype .* is none of torch's"):
        to_device("cpu")({"x": [np.zeros(1), array]})


def test_every_form_of_batch_stays_what_it_is() -> None:
    packed = Packed(np.arange(3), np.array([0, 1, 3]), None)
    batch = {"packed": packed, "list": [np.zeros(1)], "tuple": (np.zeros(2), 7, "name", None), "scalar": np.float32(3)}
    for move in (to_device("cpu"), to_device("meta")):
        found = move({"inner": batch})["inner"]
        assert isinstance(found["packed"], Packed)
        assert isinstance(found["packed"].offsets, torch.Tensor)
        assert found["packed"].shapes is None
        assert isinstance(found["list"], list)
        assert isinstance(found["tuple"], tuple)
        assert found["tuple"][1:] == (7, "name", None)
        assert found["scalar"] == np.float32(3)
        assert {t.device for t in (*found["packed"][:2], *found["list"], found["tuple"][0])} == {move.device}


def test_it_pickles() -> None:
    copy = pickle.loads(pickle.dumps(to_device("cpu")))
    assert copy(np.arange(3)).tolist() == [0, 1, 2]
    assert repr(copy) == "to_device('cpu')"


class FakeGpu:
    """A device whose copies read their sources as late as they may: when somebody waits for them."""

    def __init__(self) -> None:
        self.allocated: list[int] = []
        self.now = self.most = 0
        self.lock = threading.Lock()
        self.fails = False

    def pinned(self, size: int) -> Any:
        self.allocated.append(size)
        return torch.zeros(size, dtype=torch.uint8)

    def copy(self, sources: Sequence[Any]) -> Any:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        targets = [
            torch.full_like(source, 99) if source.dtype != torch.bool else torch.ones_like(source) for source in sources
        ]
        return targets, Late(self, sources, targets)


class Late:
    def __init__(self, gpu: FakeGpu, sources: Sequence[Any], targets: Sequence[Any]) -> None:
        self.work = gpu, sources, targets

    def synchronize(self) -> None:
        gpu, sources, targets = self.work
        threading.Event().wait(random.random() * 1e-3)
        if gpu.fails:
            raise RuntimeError("the device is lost")
        for source, target in zip(sources, targets, strict=True):
            target.copy_(source)
        with gpu.lock:
            gpu.now -= 1


def batch_of(step: int) -> list[Any]:
    return [
        torch.full((3, 5), step, dtype=torch.int16),
        torch.full((step % 4,), step, dtype=torch.float64),
        torch.tensor(step % 2 == 0),
        torch.zeros((2, 0), dtype=torch.int8),
        torch.full((7,), step % 100, dtype=torch.bfloat16),
    ]


def test_threads_never_share_a_buffer() -> None:
    """Each gets its own data although copies are late, and the pool holds as many buffers as there were copies at a time."""
    gpu = FakeGpu()
    lane = Lane(gpu, 1 << 30)
    failures = []

    def work(first: int) -> None:
        for step in range(first, 200, 4):
            found = lane.move(batch_of(step))
            if not all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(found, batch_of(step), strict=True)):
                failures.append(step)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert 1 <= len(gpu.allocated) <= 4
    assert set(gpu.allocated) == {SMALLEST}


def test_no_more_memory_than_agreed() -> None:
    """A batch that gets no buffer arrives all the same."""
    gpu = FakeGpu()
    lane = Lane(gpu, SMALLEST)
    taken = lane.pool.take(1)
    assert torch.equal(lane.move(batch_of(3))[0], batch_of(3)[0])
    lane.pool.give(taken)
    assert torch.equal(lane.move(batch_of(4))[0], batch_of(4)[0])
    large = torch.arange(SMALLEST)
    assert torch.equal(lane.move([large])[0], large)
    assert gpu.allocated == [SMALLEST]
    for arrays in ([], [torch.zeros(0)]):
        assert len(lane.move(arrays)) == len(arrays)


def test_a_buffer_that_may_still_be_read_is_not_used_again() -> None:
    gpu = FakeGpu()
    lane = Lane(gpu, 2 * SMALLEST)
    gpu.fails = True
    with pytest.raises(RuntimeError, match="the device is lost"):
        lane.move(batch_of(1))
    assert lane.pool.held == 0
    gpu.fails = False
    lane.move(batch_of(2))
    assert gpu.allocated == [SMALLEST, SMALLEST]


def test_buffers_of_other_sizes_make_room() -> None:
    sizes: list[int] = []

    def allocate(size: int) -> Any:
        sizes.append(size)
        return torch.empty(size, dtype=torch.uint8)

    pool = Pool(allocate, 4 * SMALLEST)
    small = [pool.take(10) for _ in range(4)]
    assert pool.take(10) is None
    for buffer in small:
        pool.give(buffer)
    large = pool.take(3 * SMALLEST)
    assert large is not None
    assert large.numel() == size_class(3 * SMALLEST) == 4 * SMALLEST
    assert pool.held == 4 * SMALLEST
    pool.give(large)
    assert pool.take(4 * SMALLEST) is large
    assert sizes == [SMALLEST] * 4 + [4 * SMALLEST]


def test_a_failed_allocation_takes_nothing() -> None:
    def fail(size: int) -> Any:
        raise MemoryError

    pool = Pool(fail, SMALLEST)
    for _ in range(3):
        with pytest.raises(MemoryError):
            pool.take(1)
    assert pool.held == 0


def test_loaderx_does_not_import_torch() -> None:
    code = "import sys, loaderx, loaderx.dataloader; assert not {'torch', 'jax', 'grain'} & set(sys.modules)"
    assert run_python(code).returncode == 0


def test_what_is_asked_of_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies on their own stream, then the event there; and the consumer's stream is told of every tensor."""
    calls: list[Any] = []

    class Recorded:
        """Stands for a tensor, an event and a stream."""

        def __init__(self, name: str) -> None:
            self.name = name

        def to(self, device: Any, non_blocking: bool) -> Recorded:
            calls.append(("copy", self.name, str(device), non_blocking))
            return Recorded(f"{self.name} there")

        def record_stream(self, stream: Recorded) -> None:
            calls.append(("used on", self.name, stream.name))

        def record(self, stream: Recorded) -> None:
            calls.append(("record", stream.name))

        def __enter__(self) -> None:
            calls.append(("enter", self.name))

        def __exit__(self, *error: object) -> None:
            calls.append(("leave", self.name))

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Recorded("side"))
    monkeypatch.setattr(torch.cuda, "default_stream", lambda device: Recorded("default"))
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: stream)
    monkeypatch.setattr(torch.cuda, "Event", lambda blocking: Recorded("event"))
    for consumer in (None, Recorded("own")):
        calls.clear()
        sources: list[Any] = [Recorded("a"), Recorded("b")]
        tensors, done = Cuda(torch.device("cuda:1"), consumer).copy(sources)
        assert [tensor.name for tensor in (*tensors, done)] == ["a there", "b there", "event"]
        used_on = "default" if consumer is None else "own"
        assert calls == [
            ("enter", "side"),
            ("copy", "a", "cuda:1", True),
            ("copy", "b", "cuda:1", True),
            ("record", "side"),
            ("leave", "side"),
            ("used on", "a there", used_on),
            ("used on", "b there", used_on),
        ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_without_a_gpu() -> None:
    """Said at once, not at the first batch."""
    with pytest.raises((RuntimeError, AssertionError), match="CUDA"):
        to_device("cuda")


@needs_gpu
def test_a_gpu(streams: Any) -> None:
    """The right numbers on the consumer's stream, while it is kept busy and drops batches at once."""
    move = to_device("cuda", pinned_bytes=8 << 20)
    with DataLoader(streams, batch_size=20, transform=move) as loader:
        busy = torch.ones(1024, 1024, device="cuda")
        sums, wanted = [], []
        for batch in itertools.islice(loader, 200):
            busy = busy @ busy / 1024
            sums.append(batch["image"].to(torch.int64).sum() + batch["index"].sum())
            indices = batch["index"].cpu().numpy()
            wanted.append(int(IMAGES[indices].sum() + indices.sum()))
            assert all_same([record.cpu().numpy() for record in batch["token"]], [TOKENS[i] for i in indices])
        assert [int(total) for total in sums] == wanted
    assert move.device == torch.device("cuda", 0)
    assert move._lane is not None
    assert move._lane.pool.held <= 8 << 20


@needs_gpu
def test_a_gpu_and_another_stream(streams: Any) -> None:
    stream = torch.cuda.Stream()
    with (
        DataLoader(streams, batch_size=20, transform=to_device("cuda", stream=stream)) as loader,
        torch.cuda.stream(stream),
    ):
        for batch in itertools.islice(loader, 50):
            assert same(batch["image"].cpu().numpy(), IMAGES[batch["index"].cpu().numpy()])
    with pytest.raises(TypeError, match="does not pickle"):
        pickle.dumps(to_device("cuda", stream=stream))


@needs_gpu
def test_a_gpu_has_bfloat16() -> None:
    values = np.arange(100).astype(framework("ml_dtypes").bfloat16)
    found = to_device("cuda")({"x": values})["x"]
    assert found.is_cuda
    assert found.dtype == torch.bfloat16
    assert found.float().cpu().tolist() == list(range(100))
