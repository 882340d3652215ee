//! The memory of the arguments, and of new arrays, as Rust slices. With `view.rs`, `memory.rs` and `fresh.rs` the binding's only unsafe code.
//!
//! What could go wrong, and why it can't:
//! - *The memory goes away while a core works on it.* Each slice borrows from a value that holds a reference to the
//!   owner of the memory, and NumPy moves no memory that others hold a reference to.
//! - *The memory is not what the slice says.* Type, rank, layout and alignment are checked first. Afterwards other
//!   threads may give an array a new shape or dtype in place, so nothing is asked of the array itself again: the
//!   slice and the borrow belong to a view that nobody else has.
//! - *The bytes are no plain bytes.* Arrays that hold references to objects are refused, reading as well as writing.
//! - *Two calls write the same memory, or one writes what another reads.* rust-numpy's borrow table refuses what
//!   overlaps, for calls of every extension that uses it. Python code that writes into an array during a call is
//!   beyond its sight, as it is for NumPy itself: the bytes may then be any mixture, in memory that stays valid.

use numpy::ndarray::ArrayView1;
use numpy::npyffi::{_PyArray_GET_ITEM_DATA, NPY_ARRAY_WRITEABLE};
use numpy::{
    BorrowError, Element, PyArray1, PyArrayDescr, PyArrayDescrMethods, PyArrayMethods, PyReadonlyArray1,
    PyReadwriteArray1, PyUntypedArray, PyUntypedArrayMethods, dtype,
};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zrecord::Shape;

/// Bytes to be read: `bytes`, or a C-contiguous array of any dtype without references.
pub(crate) enum Source<'py> {
    Bytes(Bound<'py, PyBytes>),
    Array(PyReadonlyArray1<'py, u8>),
}

impl Source<'_> {
    pub(crate) fn as_slice(&self) -> PyResult<&[u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.as_bytes()),
            Self::Array(view) => Ok(view.as_slice()?),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for Source<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self::Bytes(bytes.to_owned()));
        }
        Ok(Self::Array(shared(&byte_view(&plain_array(&object)?)?)?))
    }
}

/// Bytes to be read as rows along the first axis of a C-contiguous array of any dtype without references.
pub(crate) struct Rows<'py> {
    pub(crate) count: usize,
    view: PyReadonlyArray1<'py, u8>,
}

impl Rows<'_> {
    pub(crate) fn as_slice(&self) -> PyResult<&[u8]> {
        Ok(self.view.as_slice()?)
    }
}

impl<'py> FromPyObject<'_, 'py> for Rows<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let array = plain_array(&object)?;
        Ok(Self { count: row_count(&array)?, view: shared(&byte_view(&array)?)? })
    }
}

/// Records to be read, each one `bytes` or an array as in [`Source`].
///
/// They are kept alive, but not entered in the borrow table: that takes time quadratic in the number of views of
/// one array, and the rows of an array are the usual list.
pub(crate) struct Records<'py>(Vec<Bound<'py, PyAny>>);

impl Records<'_> {
    pub(crate) fn as_slices(&self) -> PyResult<Vec<&[u8]>> {
        self.0.iter().enumerate().map(|(i, record)| record_bytes(i, record)).collect()
    }
}

impl<'py> FromPyObject<'_, 'py> for Records<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(object.try_iter()?.collect::<PyResult<_>>()?))
    }
}

/// Bytes to be written: a writable C-contiguous array of any dtype without references.
pub(crate) struct Destination<'py> {
    /// The length of the first axis; `None` for an array without axes.
    pub(crate) rows: Option<usize>,
    view: PyReadwriteArray1<'py, u8>,
}

impl Destination<'_> {
    pub(crate) fn as_mut_slice(&mut self) -> PyResult<&mut [u8]> {
        Ok(self.view.as_slice_mut()?)
    }
}

impl<'py> FromPyObject<'_, 'py> for Destination<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let array = plain_array(&object)?;
        if !is_writeable(&array) {
            return Err(PyValueError::new_err("expected a writable array, found a read-only one"));
        }
        Ok(Self { rows: array.shape().first().copied(), view: exclusive(&byte_view(&array)?)? })
    }
}

/// Record indices, byte offsets or sizes: uint64, shape (n,), C-contiguous.
pub(crate) struct Numbers<'py>(PyReadonlyArray1<'py, u64>);

impl Numbers<'_> {
    pub(crate) fn as_slice(&self) -> PyResult<&[u64]> {
        Ok(self.0.as_slice()?)
    }
}

impl<'py> FromPyObject<'_, 'py> for Numbers<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(shared(&typed_view(&object, 1)?)?))
    }
}

/// Rows of the `.shape` file: uint32, shape (n, 8), C-contiguous.
pub(crate) struct Shapes(Vec<Shape>);

impl Shapes {
    pub(crate) fn as_slice(&self) -> &[Shape] {
        &self.0
    }
}

impl FromPyObject<'_, '_> for Shapes {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let view = shared(&typed_view::<u32>(&object, 2)?)?;
        if let Some(&[rows, width]) = object.cast::<PyUntypedArray>()?.shape().first_chunk()
            && width != Shape::default().0.len()
        {
            return Err(PyValueError::new_err(format!(
                "expected rows of 8 numbers, found shape ({rows}, {width})"
            )));
        }
        Ok(Self(view.as_slice()?.as_chunks().0.iter().map(|row| Shape(*row)).collect()))
    }
}

/// Record indices of a C-contiguous array of int64 or uint64, shape (n,); `None` for everything else. Negative ones come out as numbers
/// beyond every store's length.
///
/// They are copied: that takes less time than an entry in the borrow table.
pub(crate) fn indices(object: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u64>>> {
    let Ok(array) = object.cast::<PyUntypedArray>() else { return Ok(None) };
    let of_words = {
        let dtype = array.dtype();
        let is_integer = matches!(dtype.kind(), b'i' | b'u');
        is_integer && dtype.itemsize() == size_of::<u64>() && dtype.is_native_byteorder() == Some(true)
    };
    let start = data(array).cast::<u64>();
    if !of_words || array.ndim() != 1 || !array.is_c_contiguous() || !start.is_aligned() {
        return Ok(None);
    }
    let mut indices = Vec::new();
    let too_many = |_| PyMemoryError::new_err(format!("there is no memory for {} indices", array.len()));
    indices.try_reserve_exact(array.len()).map_err(too_many)?;
    indices.resize(array.len(), 0);
    // SAFETY: C-contiguous, aligned, and `len` words long, and any bits are a number. Nothing releases the interpreter in between; without
    // its lock, whoever gives an array another dtype in place while it is an argument breaks NumPy's own contract.
    unsafe { std::ptr::copy_nonoverlapping(start, indices.as_mut_ptr(), indices.len()) };
    Ok(Some(indices))
}

/// Let `work` write the bytes of an array that was just made, and that nobody else has; the array, if that works.
pub(crate) fn fill<'py>(
    array: Bound<'py, PyUntypedArray>,
    work: impl FnOnce(&mut [u8]) -> PyResult<()>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let length = byte_count(&array)?;
    if length == 0 {
        work(&mut [])?;
        return Ok(array);
    }
    // SAFETY: a new array is C-contiguous, and its memory is its own (see `memory.rs`); it stays as long as `array`.
    work(unsafe { std::slice::from_raw_parts_mut(data(&array).cast_mut(), length) })?;
    Ok(array)
}

fn shared<'py, T: Element>(array: &Bound<'py, PyArray1<T>>) -> PyResult<PyReadonlyArray1<'py, T>> {
    array.try_readonly().map_err(|error| borrow_error(&error))
}

fn borrow_error(error: &BorrowError) -> PyErr {
    PyValueError::new_err(match error {
        BorrowError::NotWriteable => "expected a writable array, found a read-only one",
        _ => "the array overlaps another argument, or another call is using it",
    })
}

fn exclusive<'py, T: Element>(array: &Bound<'py, PyArray1<T>>) -> PyResult<PyReadwriteArray1<'py, T>> {
    array.try_readwrite().map_err(|error| borrow_error(&error))
}

/// The first axis of an array.
fn row_count(array: &Bound<'_, PyUntypedArray>) -> PyResult<usize> {
    let count = array.shape().first().copied();
    count.ok_or_else(|| PyValueError::new_err("expected an array of rows, found one without axes"))
}

/// TypeError for a dtype whose elements are references to objects.
pub(crate) fn plain(dtype: &Bound<'_, PyArrayDescr>) -> PyResult<()> {
    if dtype.has_object() {
        let message = format!("dtype {dtype} holds references, not bytes; give a fixed-width dtype");
        return Err(PyTypeError::new_err(message));
    }
    Ok(())
}

/// The object as a C-contiguous array without references to objects.
fn plain_array<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
    let Ok(array) = object.cast::<PyUntypedArray>() else {
        let found = object.get_type().name()?;
        return Err(PyTypeError::new_err(format!("expected a NumPy array or bytes, found {found}")));
    };
    plain(&array.dtype())?;
    if !array.is_c_contiguous() {
        return Err(PyValueError::new_err(
            "expected a C-contiguous array; numpy.ascontiguousarray makes one",
        ));
    }
    Ok(array.clone())
}

/// The object, which must be a C-contiguous array of `T` with this many axes, as one long row.
fn typed_view<'py, T: Element + Plain>(
    object: &Bound<'py, PyAny>,
    axes: usize,
) -> PyResult<Bound<'py, PyArray1<T>>> {
    let wanted = dtype::<T>(object.py());
    let refuse = |found: String| {
        PyTypeError::new_err(format!("expected a C-contiguous {axes}-D array of {wanted}, found {found}"))
    };
    let Ok(array) = object.cast::<PyUntypedArray>() else {
        return Err(refuse(object.get_type().name()?.to_string()));
    };
    if array.ndim() != axes || !array.dtype().is_equiv_to(&wanted) {
        return Err(refuse(format!("a {}-D array of {}", array.ndim(), array.dtype())));
    }
    if !array.is_c_contiguous() || !data(array).cast::<T>().is_aligned() {
        return Err(refuse("a strided or misaligned one".to_owned()));
    }
    // SAFETY: C-contiguous, aligned, and made of `len` elements of exactly this type.
    Ok(unsafe { view(array, array.len()) })
}

/// The bytes of an array from [`plain_array`].
fn byte_view<'py>(array: &Bound<'py, PyUntypedArray>) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let length = byte_count(array)?;
    // SAFETY: C-contiguous, so its elements are `length` bytes in a row; u8 has no alignment, and none of the bytes
    // is part of a reference.
    Ok(unsafe { view(array, length) })
}

/// The bytes of one record of a list.
pub(crate) fn record_bytes<'a>(i: usize, record: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
    if let Ok(bytes) = record.cast::<PyBytes>() {
        return Ok(bytes.as_bytes());
    }
    let named = |error: PyErr| {
        let message = format!("record {i}: {}", error.value(record.py()));
        PyErr::from_type(error.get_type(record.py()), message)
    };
    let array = plain_array(record).map_err(named)?;
    let length = byte_count(&array)?;
    if length == 0 {
        return Ok(&[]);
    }
    // SAFETY: C-contiguous and not empty, so NumPy has `length` initialised bytes there. They stay as long as the
    // array, which `record` keeps alive for 'a. Nothing in this crate writes them: it writes only through the borrow
    // table, into arrays that a caller gives as a destination (see the head of this file for callers who do both).
    Ok(unsafe { std::slice::from_raw_parts(data(&array), length) })
}

fn byte_count(array: &Bound<'_, PyUntypedArray>) -> PyResult<usize> {
    let count = array.len().checked_mul(array.dtype().itemsize());
    count.ok_or_else(|| PyValueError::new_err("the array is larger than memory"))
}

/// Types that any bytes are a value of.
trait Plain {}
impl Plain for u8 {}
impl Plain for u32 {}
impl Plain for u64 {}

/// A view of an array's memory as one row that nobody else holds.
///
/// # Safety
/// The memory of `array` is aligned for `T`, and holds at least `length` of them in a row without references to
/// objects among them.
unsafe fn view<'py, T: Element + Plain>(
    array: &Bound<'py, PyUntypedArray>,
    length: usize,
) -> Bound<'py, PyArray1<T>> {
    // SAFETY: the caller's promise. The Rust view ends before this function does; what stays is the pointer, in a
    // NumPy array whose base keeps the memory alive.
    unsafe {
        let row = ArrayView1::from_shape_ptr(length, data(array).cast::<T>());
        PyArray1::borrow_from_array(&row, array.clone().into_any())
    }
}

/// Where an array's elements begin.
pub(crate) fn data(array: &Bound<'_, PyUntypedArray>) -> *const u8 {
    // SAFETY: the pointer is to a live NumPy array, whose fields may be read while attached to the interpreter.
    unsafe { (*_PyArray_GET_ITEM_DATA(array.as_array_ptr())).data.cast_const().cast() }
}

pub(crate) fn is_writeable(array: &Bound<'_, PyUntypedArray>) -> bool {
    // SAFETY: as in `data`.
    unsafe { (*_PyArray_GET_ITEM_DATA(array.as_array_ptr())).flags & NPY_ARRAY_WRITEABLE != 0 }
}
