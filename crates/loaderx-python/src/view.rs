//! Arrays on memory that something else owns: another array, a chunk of a store.
//!
//! What could go wrong with the unsafe here: an array that outlives its memory, or that reaches beyond it. The owner becomes the array's
//! base before anyone else sees the array, so it lives as long as the array or any view of it; the rest is the caller's promise.

use std::ffi::c_int;

use numpy::npyffi::{NPY_ARRAY_CARRAY, NPY_ARRAY_CARRAY_RO, PY_ARRAY_API, npy_intp};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3::{PyTypeInfo, ffi};

use zrecord::Shape;

use crate::array::{data, is_writeable};
use crate::shapes::does_not_fit;

/// What may be done with an array's elements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elements {
    Writable,
    ReadOnly,
}

/// A C-contiguous array of a shape, whose first element is at `start`.
///
/// # Safety
/// From `start` on there is memory for all elements, aligned as the dtype wants it, for as long as `owner` lives; it is initialised, and if
/// it is writable nobody else counts on its content. The dtype holds no references to objects.
pub(crate) unsafe fn view<'py>(
    shape: &[usize],
    dtype: &Bound<'py, PyArrayDescr>,
    start: *mut u8,
    elements: Elements,
    owner: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = dtype.py();
    let mut axes = axes(shape)?;
    let flags = if elements == Elements::Writable { NPY_ARRAY_CARRAY } else { NPY_ARRAY_CARRAY_RO };
    // SAFETY: the caller's promise. The first call takes over a reference to the dtype, the second one to the owner; null and less than
    // zero are errors that NumPy has set.
    let array = unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            PyUntypedArray::type_object_raw(py),
            dtype.clone().into_dtype_ptr(),
            rank(&axes),
            axes.as_mut_ptr(),
            std::ptr::null_mut(),
            start.cast(),
            flags,
            std::ptr::null_mut::<ffi::PyObject>(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), owner.into_ptr()) < 0 {
            return Err(PyErr::fetch(py));
        }
        array
    };
    Ok(array.cast_into()?)
}

/// Owner of an array that shows records in a store's file.
#[pyclass(frozen, module = "loaderx._core")]
struct Stretch {
    _records: zrecord::View,
}

/// The `count` records of a view, each of `item_shape` and `dtype`, as an array that can't be written to.
pub(crate) fn stretch<'py>(
    py: Python<'py>,
    records: zrecord::View,
    count: usize,
    item_shape: &[usize],
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let shape: Vec<usize> = std::iter::once(count).chain(item_shape.iter().copied()).collect();
    let (start, length) = (records.bytes().as_ptr().cast_mut(), records.bytes().len());
    if byte_count(&shape, dtype) != Some(length) {
        let message =
            format!("{length} bytes are not {count} records of shape {item_shape:?} and dtype {dtype}");
        return Err(PyValueError::new_err(message));
    }
    let owner = Bound::new(py, Stretch { _records: records })?.into_any();
    // SAFETY: the map is that long and stays where it is as long as its owner lives. Chunks begin at a page and rows are whole numbers of
    // elements, so each is aligned. Bytes that are mapped read-only are not written through this array, and nobody else writes them:
    // the view's lock is in the way. The dtype has no references, which whoever made it a store's has checked.
    unsafe { view(&shape, dtype, start, Elements::ReadOnly, owner) }
}

/// The parts of a C-contiguous array of shape (n,) between neighbouring places, as views of it that are writable if it is; of the shapes
/// that the entries state, or one-dimensional.
pub(crate) fn parts<'py>(
    array: &Bound<'py, PyUntypedArray>,
    places: &[i64],
    shapes: Option<&[Shape]>,
) -> PyResult<Bound<'py, PyList>> {
    let (dtype, length, start) = (array.dtype(), array.len(), data(array).cast_mut());
    let refuse = || PyValueError::new_err(format!("the places are no cuts of an array of {length} elements"));
    if array.ndim() != 1 || !array.is_c_contiguous() || dtype.has_object() {
        return Err(refuse());
    }
    if let Some(shapes) = shapes
        && places.len().checked_sub(1) != Some(shapes.len())
    {
        let message =
            format!("expected one place more than the {} shapes, found {}", shapes.len(), places.len());
        return Err(PyValueError::new_err(message));
    }
    let elements = if is_writeable(array) { Elements::Writable } else { Elements::ReadOnly };
    let part = |(i, (&from, &to)): (usize, (&i64, &i64))| {
        let (from, to) = (usize::try_from(from), usize::try_from(to));
        let (Ok(from), Ok(to)) = (from, to) else { return Err(refuse()) };
        if from > to || to > length {
            return Err(refuse());
        }
        let items = to - from;
        let entry = shapes.and_then(|shapes| shapes.get(i)).copied().unwrap_or_default();
        let start = start.wrapping_add(from * dtype.itemsize());
        let owner = array.clone().into_any();
        if entry.is_plain() {
            // SAFETY: the elements lie within the array, which owns them or keeps alive who does.
            return unsafe { view(&[items], &dtype, start, elements, owner) };
        }
        let sizes = entry.dimensions(items as u64).ok_or_else(|| does_not_fit(i))?;
        let sizes: Result<Vec<_>, _> = sizes.as_slice().iter().map(|&size| usize::try_from(size)).collect();
        let sizes = sizes.map_err(|_| does_not_fit(i))?;
        // SAFETY: as above; the dimensions are those of `items` elements.
        unsafe { view(&sizes, &dtype, start, elements, owner) }
    };
    let pairs = places.iter().zip(places.iter().skip(1)).enumerate();
    PyList::new(array.py(), pairs.map(part).collect::<PyResult<Vec<_>>>()?)
}

/// The bytes of an array; `None` if no memory holds as many.
pub(crate) fn byte_count(shape: &[usize], dtype: &Bound<'_, PyArrayDescr>) -> Option<usize> {
    let bytes = shape.iter().try_fold(dtype.itemsize(), |bytes, &axis| bytes.checked_mul(axis));
    bytes.filter(|&bytes| isize::try_from(bytes).is_ok())
}

/// A shape as NumPy wants it.
pub(crate) fn axes(shape: &[usize]) -> PyResult<Vec<npy_intp>> {
    let axes: Result<_, _> = shape.iter().map(|&axis| npy_intp::try_from(axis)).collect();
    axes.map_err(|_| PyMemoryError::new_err(format!("an array of shape {shape:?} is larger than memory")))
}

/// The number of axes. NumPy's own limit is far below what a `c_int` holds.
pub(crate) fn rank(axes: &[npy_intp]) -> c_int {
    c_int::try_from(axes.len()).unwrap_or(c_int::MAX)
}
