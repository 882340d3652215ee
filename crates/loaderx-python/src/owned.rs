//! Arrays that own their memory: NumPy's, or that of a batch.
//!
//! Which handler NumPy asks for memory is a context variable of Python's, and setting one costs more than all else about a small batch.
//! So each handler of ours is set once, in a context of its own, and an array on a batch's memory is made by a call of `numpy.empty`
//! within such a context: the caller's context is never changed. A handler and its context are used again once its array is gone.
//!
//! What could go wrong with the unsafe here: an array of another shape or dtype than meant, and a function of NumPy's that is another one
//! than we think, which its place in the table of a version rules out.

use std::ffi::{c_int, c_uint, c_void};
use std::mem;
use std::ptr;
use std::sync::Mutex;

use numpy::npyffi::{PY_ARRAY_API, is_numpy_2};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyCapsule, PyDict, PyTuple};
use zloader::Memory;

use crate::array::data;
use crate::error::internal;
use crate::handler::Handler;
use crate::view::{axes, rank};

/// Where NumPy's table of functions has `PyDataMem_SetHandler`, and the version of the table (that of NumPy 1.22) since when it has.
const SET_HANDLER: usize = 304;
const SET_HANDLER_SINCE: c_uint = 0xf;
/// `NPY_NEEDS_INIT`: text, and structures with some. NumPy wants their memory zeroed, and asks handlers for it in another way (`calloc`),
/// in which they can't hand out what is written already.
const NEEDS_INIT: u64 = 0x08;
/// Contexts that are kept, enough for the arrays that a program holds at a time; one that holds more has new ones made.
const KEPT: usize = 32;

/// A new array, C-contiguous and writable, on memory of NumPy's, its content whatever was there. `dtype` holds no references to objects.
pub(crate) fn new<'py>(
    shape: &[usize],
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let mut axes = axes(shape)?;
    let c_order: c_int = 0;
    // SAFETY: `axes` are so many numbers as its rank says; the reference to the dtype is the array's from here on. Null is an error
    // that NumPy has set.
    let array = unsafe {
        let (py, dtype) = (dtype.py(), dtype.clone().into_dtype_ptr());
        let array = PY_ARRAY_API.PyArray_Empty(py, rank(&axes), axes.as_mut_ptr(), dtype, c_order);
        Bound::from_owned_ptr_or_err(py, array)?
    };
    Ok(array.cast_into()?)
}

/// As [`new`], on this memory, which is as large as the array and belongs to it from here on.
pub(crate) fn owner<'py>(
    memory: Memory,
    shape: &[usize],
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = dtype.py();
    let numpy = NumPy::get(py)?;
    let context = Context::take().map_or_else(|| Context::new(py, numpy), Ok)?;
    let array = if dtype.flags() & NEEDS_INIT == 0 || dtype.itemsize() == 0 {
        context.empty(numpy, memory, shape, dtype)
    } else {
        let void = PyArrayDescr::new(py, format!("V{}", dtype.itemsize()))?;
        context.empty(numpy, memory, shape, &void).inspect(|array| give_dtype(array, dtype))
    };
    context.keep();
    array
}

/// Change the dtype of an array that nobody else has yet, to one as wide.
fn give_dtype(array: &Bound<'_, PyUntypedArray>, dtype: &Bound<'_, PyArrayDescr>) {
    let new = dtype.clone().into_dtype_ptr();
    // SAFETY: the array is alive, and its place for the dtype holds a reference, as it does afterwards. Shape and strides hold for any
    // dtype of this width, and the memory of batches is aligned for all of them.
    unsafe {
        let old = mem::replace(&mut (*array.as_array_ptr()).fields.descr, new);
        ffi::Py_DECREF(old.cast());
    }
}

/// What of NumPy is needed here.
struct NumPy {
    empty: Py<PyAny>,
    /// `PyDataMem_SetHandler` as a function of Python's.
    set_handler: Py<PyAny>,
    /// `contextvars.Context`.
    context: Py<PyAny>,
}

impl NumPy {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static FOUND: PyOnceLock<NumPy> = PyOnceLock::new();
        FOUND.get_or_try_init(py, || {
            let module = if is_numpy_2(py) { "numpy._core.multiarray" } else { "numpy.core.multiarray" };
            let module = py.import(module)?;
            let set_handler = set_handler(py, module.getattr("_ARRAY_API")?.cast_into()?)?;
            let call = move |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
                let handler = arguments.get_item(0)?.cast_into::<PyCapsule>()?;
                // SAFETY: a handler's capsule, of which NumPy takes a reference of its own. It gives one to the handler until now; null
                // is an error that it has set.
                unsafe { Bound::from_owned_ptr_or_err(handler.py(), set_handler(handler.as_ptr())) }?;
                PyResult::Ok(())
            };
            Ok(Self {
                empty: module.getattr("empty")?.unbind(),
                set_handler: PyCFunction::new_closure(py, None, None, call)?.into_any().unbind(),
                context: py.import("contextvars")?.getattr("Context")?.unbind(),
            })
        })
    }
}

type SetHandler = unsafe extern "C" fn(*mut ffi::PyObject) -> *mut ffi::PyObject;

/// The function of this table.
fn set_handler(py: Python<'_>, table: Bound<'_, PyCapsule>) -> PyResult<SetHandler> {
    // SAFETY: takes nothing, and gives a number.
    let version = unsafe { PY_ARRAY_API.PyArray_GetNDArrayCFeatureVersion(py) };
    if version < SET_HANDLER_SINCE {
        return Err(PyRuntimeError::new_err("this NumPy is too old: its arrays have no memory handlers"));
    }
    let functions = table.pointer_checked(None)?.cast::<*const c_void>();
    // SAFETY: tables from this version on have that function at that place.
    let found = unsafe { functions.add(SET_HANDLER).cast().read() };
    // The function is used for ever.
    mem::forget(table);
    Ok(found)
}

/// A handler, and the context where it is NumPy's.
struct Context {
    handler: Handler,
    /// Its method `run`.
    run: Py<PyAny>,
}

/// Contexts that nobody is in. Locked for moments in which the interpreter isn't let go, and never waited for.
static CONTEXTS: Mutex<Vec<Context>> = Mutex::new(Vec::new());

impl Context {
    fn new(py: Python<'_>, numpy: &NumPy) -> PyResult<Self> {
        let handler = Handler::new(py)?;
        let run = numpy.context.bind(py).call0()?.getattr("run")?;
        run.call1((&numpy.set_handler, handler.capsule(py)))?;
        Ok(Self { handler, run: run.unbind() })
    }

    /// One whose array is gone.
    fn take() -> Option<Self> {
        let mut contexts = CONTEXTS.try_lock().ok()?;
        let at = contexts.iter().rposition(|context| context.handler.is_idle())?;
        Some(contexts.remove(at))
    }

    /// Keep it for an array to come, rather than the one that wasn't used for longest: its array may be held for ever.
    fn keep(self) {
        let Ok(mut contexts) = CONTEXTS.try_lock() else { return };
        let surplus = (contexts.len() >= KEPT).then(|| contexts.remove(0));
        contexts.push(self);
        drop(contexts);
        drop(surplus);
    }

    /// An array on the memory.
    fn empty<'py>(
        &self,
        numpy: &NumPy,
        memory: Memory,
        shape: &[usize],
        dtype: &Bound<'py, PyArrayDescr>,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let py = dtype.py();
        let shape = PyTuple::new(py, shape)?;
        let start = self.handler.offer(memory);
        let start =
            start.ok_or_else(|| internal("the memory of a batch was offered to a handler that has some"))?;
        let array = self.run.bind(py).call1((&numpy.empty, shape, dtype));
        self.handler.withdraw();
        let array = array?.cast_into::<PyUntypedArray>()?;
        if !ptr::eq(data(&array), start) {
            return Err(PyTypeError::new_err(format!("NumPy makes no array of {dtype} on a batch's memory")));
        }
        Ok(array)
    }
}
