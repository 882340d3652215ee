"""Memory that worker processes hand over: used again, never while it is held, and never more than is outstanding."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transforms
from loaderx.dataloader import DataLoader
from loaderx.dataloader.plan import Made
from loaderx.dataloader.processes import Processes, channel, memory
from loaderx.dataloader.processes.failures import Failure, restored
from loaderx.dataloader.processes.leases import KEPT, Leases
from loaderx.dataloader.processes.packing import Bundle, unpacked
from loaderx.dataloader.processes.slots import SMALLEST, Slots
from loaderx.dataloader.processes.worker import give
from streams import IMAGES, unbroken
from support import fork, same

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="descriptors over sockets"),
    pytest.mark.usefixtures("processes"),
]


def maps(loader: DataLoader) -> list[int]:
    """How many slots the consumer knows of each worker."""
    assert isinstance(loader._pipeline, Processes)
    return [len(worker._leases._maps) for worker in loader._pipeline._workers]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a directory of links that come and go


def test_slots_are_used_again(streams: Any) -> None:
    with DataLoader(streams, 2, 5, worker_type="process") as loader:
        for _ in range(20):
            next(loader)
        for _ in range(200):
            batch = next(loader)
        assert batch["index"].shape == (5,)
        assert max(maps(loader)) <= 2 + 4 + 3


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_many_batches_may_be_kept(streams: Any) -> None:
    """More than slots, and more than a process may have open files with a few each."""
    before = descriptors()
    with DataLoader(streams, 2, 5, worker_type="process") as loader:
        kept = [next(loader) for _ in range(400)]
        assert max(maps(loader)) <= KEPT + 2 * (2 + 4) + 1
        assert descriptors() - before < 120
        for batch, index in zip(kept, unbroken(400), strict=True):
            assert batch["index"].tolist() == index
            assert same(batch["image"], IMAGES[index])
            assert batch["image"].flags.writeable
            assert batch["image"].ctypes.data % 64 == 0
        del kept, batch
        for _ in range(50):
            next(loader)
    del loader
    gc.collect()
    assert descriptors() - before < 20  # the server's, where it was started just now


def test_batches_outlive_their_loader(streams: Any) -> None:
    loader = DataLoader(streams, 2, 5, worker_type="process")
    kept = [next(loader) for _ in range(3)]
    loader.close()
    del loader
    gc.collect()
    assert [batch["index"].tolist() for batch in kept] == unbroken(3)


def test_results_of_changing_size(streams: Any) -> None:
    with DataLoader(streams, 2, 5, transform=transforms.grown, worker_type="process") as loader:
        for index in unbroken(40):
            assert same(next(loader), np.full((1 + index[0] * index[0] * 997, 3), index[0]))


def test_batches_let_go_in_other_threads(streams: Any) -> None:
    with DataLoader(streams, 2, 5, worker_type="process") as loader:
        held: list[Any] = []
        errors: list[BaseException] = []

        def let_go() -> None:
            try:
                for _ in range(300):
                    held.append(next(loader))
                    if len(held) > 5:
                        batch = held.pop(0)
                        assert same(batch["image"], IMAGES[batch["index"]])
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=let_go) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not errors
        assert loader.step == 900


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child(streams: Any) -> None:
    """It keeps what it inherited, goes on with workers of its own, and leaves the parent's alone."""
    with DataLoader(streams, 2, 5, worker_type="process") as loader:
        held = [next(loader) for _ in range(3)]
        read, write = os.pipe()
        child = fork()
        if child == 0:
            signal.alarm(60)
            ok = False
            try:
                os.read(read, 1)  # the parent has let go of its batches and made many more
                ok = [batch["index"].tolist() for batch in held] == unbroken(3)
                ok = ok and [next(loader)["index"].tolist() for _ in range(5)] == unbroken(8)[3:]
                loader.close()
            finally:
                os._exit(0 if ok else 1)
        held.clear()
        assert [next(loader)["index"].tolist() for _ in range(40)] == unbroken(43)[3:]
        os.write(write, b"x")
        assert os.waitpid(child, 0)[1] == 0
        assert [next(loader)["index"].tolist() for _ in range(40)] == unbroken(83)[43:]
        os.close(read)
        os.close(write)


def carried(value: Any, slots: Slots, leases: Leases) -> Any:
    """Through a slot, within this process."""
    bundle = Bundle(value)
    with slots.take(bundle.size) as slot:
        bundle.write(slot.memory)
        known = slot.descriptor is None
        message = channel.Message(0, slot.number, 0 if known else len(slot.memory), bundle.tail, bundle.length)
        leases.learn(message, None if known else os.dup(slot.descriptor or 0))
    return unpacked(leases.hold(message), message.tail, message.length)


def test_a_slot_is_free_when_its_last_array_is_gone() -> None:
    states = memoryview(bytearray(8))
    slots, leases = Slots(states), Leases(states, kept=2)
    first = carried({"a": np.arange(10), "b": np.arange(5)}, slots, leases)
    assert bytes(states[:1]) == bytes([channel.BUSY])
    part = first["b"][1:3].view(np.uint8)
    del first
    assert bytes(states[:1]) == bytes([channel.BUSY])
    del part
    assert bytes(states[:1]) == bytes([channel.FREE])
    second = carried(np.arange(7), slots, leases)
    assert len(slots._maps) == 1
    large = carried(np.zeros(SMALLEST), slots, leases)
    assert len(slots._maps) == 2
    copy = carried(np.arange(9), slots, leases)
    assert states[2] == channel.FREE
    assert copy.tolist() == list(range(9))
    assert second.tolist() == list(range(7))
    del second
    assert carried(np.ones(2 * SMALLEST), slots, leases).sum() == 2 * SMALLEST
    assert len(slots._maps) == 3
    assert large.sum() == 0


def test_a_descriptor_that_did_not_arrive() -> None:
    """At the limit of open files the kernel drops it: that step is an error, and the next one is well."""
    states = memoryview(bytearray(4))
    slots, leases = Slots(states), Leases(states, kept=2)
    with slots.take(10) as slot:
        message = channel.Message(0, slot.number, len(slot.memory), 0, 8)
    leases.learn(message, None)
    with pytest.raises(OSError, match="no descriptor was left"):
        leases.hold(message)
    assert states[0] == channel.GONE
    assert carried(np.arange(3), slots, leases).tolist() == [0, 1, 2]


def test_memory_that_is_not_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error of that step, and the worker lives on."""
    create = memory.create

    def refuse_large(size: int) -> int:
        if size > SMALLEST:
            raise OSError(errno.ENOMEM, "refused")
        return create(size)

    monkeypatch.setattr(memory, "create", refuse_large)
    states = memoryview(bytearray(4))
    slots, leases = Slots(states), Leases(states, kept=2)
    ours, theirs = channel.pair()
    with theirs:
        for step, batch in enumerate([np.zeros(SMALLEST), np.arange(3)]):
            give(Made(batch, None), step, slots, theirs)
            received = ours.receive()
            assert received is not None
            message, descriptor = received
            assert message.step == step
            leases.learn(message, descriptor)
            value = unpacked(leases.hold(message), message.tail, message.length)
            if step == 0:
                assert isinstance(value, Failure)
                assert not value.of_step
                error = restored(value, step)
                assert isinstance(error, OSError)
                assert error.errno == errno.ENOMEM
            else:
                assert value[0].tolist() == [0, 1, 2]


def test_where_there_is_no_memfd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    descriptor = memory.create(1000)
    assert list(tmp_path.iterdir()) == []
    with memory.mapped(descriptor, 1000) as first, memory.mapped(descriptor, 1000) as second:
        first[5] = 7
        assert second[5] == 7
    os.close(descriptor)
