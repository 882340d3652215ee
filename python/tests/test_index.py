"""Indexing equals NumPy's on an array of the same length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loaderx.dataset.index import indices, single, wrap


@st.composite
def length_and_index(draw: st.DrawFn) -> tuple[int, Any]:
    length = draw(st.integers(0, 40))
    forms = [
        st.slices(length),
        st.lists(st.booleans(), min_size=length, max_size=length).map(lambda v: np.array(v, bool)),
    ]
    if length:
        valid = st.lists(st.integers(-length, length - 1), max_size=60)
        dtypes = st.sampled_from([np.int8, np.int16, np.int32, np.int64])
        forms += [
            valid,
            valid.map(tuple),
            st.integers(0, length - 1),
            st.integers(-length, -1),
            st.builds(lambda v, t: np.array(v, t), valid, dtypes),
            st.builds(lambda v, t: np.array(v, t)[::-2], valid, dtypes),
            st.lists(st.integers(0, length - 1)).map(lambda v: np.array(v, np.uint64)),
            st.builds(range, st.integers(0, length - 1), st.integers(0, length - 1)),
        ]
    return length, draw(st.one_of(forms))


@given(length_and_index())
def test_equals_numpy(case: tuple[int, Any]) -> None:
    length, index = case
    want = np.arange(length)[list(index) if isinstance(index, (tuple, range)) else index] if length else np.array([])
    found = indices(index, length)
    assert found.dtype == np.uint64
    assert found.flags.c_contiguous
    assert found.tolist() == np.atleast_1d(want).tolist()


@given(length_and_index())
def test_only_an_integer_is_single(case: tuple[int, Any]) -> None:
    length, index = case
    one = single(index)
    assert (one is not None) == isinstance(index, int)
    if one is not None:
        assert wrap(one, length) == np.arange(length)[index]


@pytest.mark.parametrize("index", [np.int64(-1), np.uint8(4), np.array(4)])
def test_numpy_integers_are_single(index: Any) -> None:
    one = single(index)
    assert one is not None
    assert wrap(one, 5) == 4


def test_an_array_of_one_is_a_record_set() -> None:
    assert single(np.array([3])) is None


@pytest.mark.parametrize(
    "index", [5, -6, 2**70, [0, 5], [-6], (1, 9), np.array([7], np.uint64), [2**63], [2**64], [-(2**70)]]
)
def test_out_of_range(index: Any) -> None:
    with pytest.raises(IndexError, match=r"index -?\d+ is out of range"):
        indices(index, 5)


def test_out_of_range_names_index_and_length() -> None:
    with pytest.raises(IndexError, match="index 7 is out of range for 5 records"):
        indices([1, 7, 9], 5)
    with pytest.raises(IndexError, match="index -6 is out of range for 5 records"):
        indices(np.array([-6, 1]), 5)


@pytest.mark.parametrize("mask", [np.zeros(4, bool), np.zeros(6, bool), [True], np.array(True), np.zeros((5, 1), bool)])
def test_a_mask_of_another_length(mask: Any) -> None:
    with pytest.raises(IndexError, match=r"a mask has one bool a record: expected shape \(5,\), found"):
        indices(mask, 5)


@pytest.mark.parametrize("index", [[[0, 1]], np.zeros((2, 2), int), np.zeros((0, 3), int)])
def test_more_than_one_dimension(index: Any) -> None:
    with pytest.raises(IndexError, match="a record set has one dimension"):
        indices(index, 5)


@pytest.mark.parametrize(
    "index",
    [
        1.0,
        np.float32(1),
        [0.0],
        np.array([]),
        np.array([1.5]),
        "1",
        b"1",
        None,
        [None],
        ["a"],
        {0, 1},
        {0: 1},
        iter([0]),
    ],
)
def test_what_selects_no_records(index: Any) -> None:
    with pytest.raises(TypeError, match="selects no records: expected an integer"):
        indices(index, 5)


def test_hints_for_what_numpy_would_take() -> None:
    with pytest.raises(TypeError, match=r"\[:\] selects all"):
        indices(..., 5)
    with pytest.raises(TypeError, match="select records first"):
        indices((slice(0, 2), 1), 5)


@pytest.mark.parametrize("index", [True, False, np.True_])
def test_a_bool_is_no_index(index: Any) -> None:
    with pytest.raises(TypeError, match="is a bool"):
        indices(index, 5)


def test_nothing_selects_nothing() -> None:
    forms: list[Any] = [[], (), slice(0, 0), np.zeros(0, np.int64), np.zeros(0, bool)]
    for index in forms:
        assert indices(index, 0).shape == (0,)
