from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from loaderx.arguments import add_note, integer, uint64_array


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), np.array(3)])
def test_an_integer_of_any_class(value: Any) -> None:
    assert integer(value, "n") == 3
    assert type(integer(value, "n")) is int


@pytest.mark.parametrize("value", [True, np.True_, 3.0, "3", None, np.array([3, 4])])
def test_what_is_no_integer(value: Any) -> None:
    with pytest.raises(TypeError, match="n: expected an integer, found"):
        integer(value, "n")


def test_an_integer_out_of_bounds() -> None:
    with pytest.raises(ValueError, match="workers: expected at least 1, found 0"):
        integer(0, "workers", minimum=1)
    with pytest.raises(ValueError, match=f"seed: expected 0 to {2**64 - 1}, found {2**64}"):
        integer(2**64, "seed")


@pytest.mark.parametrize("values", [[0, 5], (0, 5), np.array([0, 5], np.int8), np.array([0, 5], np.uint64)])
def test_uint64_array(values: Any) -> None:
    found = uint64_array(values, "offsets")
    assert found.dtype == np.uint64
    assert found.tolist() == [0, 5]


def test_uint64_array_of_one_or_none() -> None:
    assert uint64_array([], "offsets").shape == (0,)
    assert uint64_array(7, "offsets").tolist() == [7]


def test_uint64_array_refuses() -> None:
    with pytest.raises(TypeError, match="offsets: expected integers, found dtype float64"):
        uint64_array([0.5], "offsets")
    with pytest.raises(TypeError, match="offsets: expected integers, found dtype bool"):
        uint64_array([True], "offsets")
    with pytest.raises(ValueError, match="offsets: expected numbers of at least 0, found -2"):
        uint64_array([1, -2], "offsets")
    with pytest.raises(ValueError, match=r"offsets: expected one dimension, found shape \(1, 2\)"):
        uint64_array([[1, 2]], "offsets")


def test_a_note_is_added_where_it_can_be() -> None:
    error = ValueError("x")
    add_note(error, "step 3")
    assert getattr(error, "__notes__", ["step 3"]) == ["step 3"]
    assert hasattr(error, "__notes__") == (sys.version_info >= (3, 11))

    class Stubborn(Exception):
        def add_note(self, note: str) -> None:
            raise RuntimeError(note)

    add_note(Stubborn(), "nothing happens")
