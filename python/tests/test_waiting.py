"""How far ahead makers may go while the consumer passes over steps."""

from __future__ import annotations

import numpy as np
import pytest
from loaderx.dataloader.errors import BatchTimeoutError
from loaderx.dataloader.pipeline import Options
from loaderx.dataloader.plan import Made
from loaderx.dataloader.waiting import Waiting
from loaderx.dataloader.window import Window

WINDOW = 5


class Noted(Waiting):
    """Steps that are made when the test says so."""

    def __init__(self) -> None:
        super().__init__(0, Window(Options(1, WINDOW - 1, 1 << 30, "thread", None), 1 << 30, expected=1))
        self.begun: list[int] = []

    def begin(self, step: int) -> None:
        self.begun.append(step)

    def wait_in_vain(self, step: int) -> None:
        with pytest.raises(BatchTimeoutError):
            self.wait(step, 0.001)


def test_steps_that_are_passed_over_count_until_they_are_there() -> None:
    noted = Noted()
    noted.wait_in_vain(0)
    assert noted.begun == list(range(WINDOW))
    noted.wait_in_vain(30)
    assert noted.begun == list(range(WINDOW))
    for made in range(30):
        noted.arrived(made, Made({}, None))
        noted.wait_in_vain(30)
        assert noted.begun == list(range(WINDOW + made + 1))
        assert noted.results == {}
    noted.arrived(30, Made({"x": 1}, None))
    assert noted.wait(30, 1).batch == {"x": 1}
    for _ in range(2):
        noted.release(30)
        assert noted.begun == list(range(31 + WINDOW))


def test_steps_out_of_turn_that_are_passed_over_count_too() -> None:
    noted = Noted()
    noted.wait_in_vain(0)
    noted.release(3)
    noted.arrived(1, Made({}, None))
    assert noted.wait_any(1)[0] == 1
    noted.release(1)
    assert noted.begun == list(range(WINDOW + 1))
    noted.arrived(3, Made({}, None))
    noted.wait_in_vain(0)
    assert noted.begun == list(range(WINDOW + 2))
    assert noted._outstanding == WINDOW


class Opaque:
    """Has a size that can't be asked for."""

    @property
    def nbytes(self) -> int:
        raise RuntimeError("no size")


@pytest.mark.parametrize(
    ("is_bound", "expected", "first"), [(True, None, 1), (False, None, 3), (True, 10, 4), (False, 10, 4)]
)
def test_how_many_may_be_begun_before_a_batch_was_seen(is_bound: bool, expected: int | None, first: int) -> None:
    """Memory for four batches of ten bytes."""
    window = Window(Options(3, 9, 40, "thread", None, is_bound), 40, expected)
    assert window.size == first
    window.saw({"x": b"", "y": np.zeros(5, np.uint8)})
    assert window.size == (4 if expected else 8)
    window.saw([np.zeros(20, np.uint8)])
    assert window.size == 2
    window.saw(np.zeros(100, np.uint8))
    assert window.size == 1
    window.saw(np.zeros(1, np.uint8))
    assert window.size == 1


def test_a_batch_without_a_size_takes_none() -> None:
    window = Window(Options(3, 9, 40, "thread", None, True), 40)
    window.saw(Opaque())
    assert window.size == 12
