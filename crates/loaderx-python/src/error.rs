//! The way into the cores and back: the interpreter released, panics caught, errors raised as Python's own.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread;

use pyo3::exceptions::{
    PyFileExistsError, PyFileNotFoundError, PyIndexError, PyMemoryError, PyOSError, PyPermissionError,
    PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::{PyTypeInfo, create_exception};
use zrecord::panic_text;

// The module that users import them from: tracebacks and pickles name that one.
create_exception!(
    loaderx.zrecord,
    ZrecordError,
    PyRuntimeError,
    "Base of the errors that are about a store rather than about an argument."
);
create_exception!(
    loaderx.zrecord,
    CorruptStoreError,
    ZrecordError,
    "A file of the store is damaged, truncated or missing."
);
create_exception!(
    loaderx.zrecord,
    CorruptRecordError,
    ZrecordError,
    "A record's bytes do not match its checksum or do not decode.\n\n\
     `path` of the store, index of the `record`, its `chunk` and byte `offset` there, what was `found` and `expected`."
);
create_exception!(
    loaderx.zrecord,
    StaleStoreError,
    ZrecordError,
    "The store was deleted from or compacted since this handle opened it."
);
create_exception!(
    loaderx.zrecord,
    StoreLockedError,
    ZrecordError,
    "Another handle holds the lock that this operation needs."
);
create_exception!(
    loaderx.zrecord,
    UnsupportedCodecError,
    ZrecordError,
    "Unknown codec, or a `zstd_dict` store without its dictionary."
);

// The same numbers on every POSIX system that Rust's standard library knows.
const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EACCES: i32 = 13;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;

/// Put the exceptions into the module.
pub(crate) fn add_exceptions(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("ZrecordError", ZrecordError::type_object(py))?;
    module.add("CorruptStoreError", CorruptStoreError::type_object(py))?;
    module.add("StaleStoreError", StaleStoreError::type_object(py))?;
    module.add("StoreLockedError", StoreLockedError::type_object(py))?;
    module.add("UnsupportedCodecError", UnsupportedCodecError::type_object(py))?;

    // An instance that Python code makes has the attributes too.
    let corrupt_record = CorruptRecordError::type_object(py);
    for text in ["path", "found", "expected"] {
        corrupt_record.setattr(text, "")?;
    }
    for number in ["record", "chunk", "offset"] {
        corrupt_record.setattr(number, 0)?;
    }
    module.add("CorruptRecordError", corrupt_record)
}

/// A core's error that Python can raise.
pub(crate) trait Raise {
    /// The exception for it.
    fn raise(self, py: Python<'_>) -> PyErr;
}

/// Call into a core with the interpreter released. A panic there is a [`ZrecordError`] here.
pub(crate) fn detached<T: Send, E: Raise + Send>(
    py: Python<'_>,
    call: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    raised(py, py.detach(|| caught(call)))
}

/// As [`detached`], for what takes less time than to release the interpreter.
pub(crate) fn attached<T, E: Raise>(py: Python<'_>, call: impl FnOnce() -> Result<T, E>) -> PyResult<T> {
    raised(py, caught(call))
}

/// Nothing of a call that panicked is seen again but what the core keeps behind its own locks.
fn caught<T>(call: impl FnOnce() -> T) -> thread::Result<T> {
    catch_unwind(AssertUnwindSafe(call))
}

fn raised<T, E: Raise>(py: Python<'_>, outcome: thread::Result<Result<T, E>>) -> PyResult<T> {
    match outcome {
        Ok(result) => result.map_err(|error| error.raise(py)),
        Err(panic) => Err(internal(&panic_text(panic))),
    }
}

/// A fault of this library.
pub(crate) fn internal(what: &str) -> PyErr {
    ZrecordError::new_err(format!("internal error: {what}"))
}

impl Raise for zforeign::Error {
    fn raise(self, _: Python<'_>) -> PyErr {
        PyValueError::new_err(self.to_string())
    }
}

impl Raise for zrecord::Error {
    fn raise(self, py: Python<'_>) -> PyErr {
        use zrecord::Error;

        let message = self.to_string();
        match self {
            Error::Closed { path } => {
                PyValueError::new_err(format!("I/O operation on closed store {}", path.display()))
            }
            Error::InvalidArgument(_)
            | Error::RecordTooLong { .. }
            | Error::LengthMismatch { .. }
            | Error::CodecMismatch { .. } => PyValueError::new_err(message),
            Error::IndexOutOfRange { .. } => PyIndexError::new_err(message),

            Error::ReadOnly { path } => {
                PyPermissionError::new_err((EACCES, "the store was opened read-only", path.into_os_string()))
            }
            Error::NotFound { path } => {
                PyFileNotFoundError::new_err((ENOENT, "there is no store to open", path.into_os_string()))
            }
            Error::AlreadyExists { path } => PyFileExistsError::new_err((
                EEXIST,
                "there is a store already; open it instead",
                path.into_os_string(),
            )),
            Error::Io { verb, path, source } => os_error(verb, &path, &source, message),

            Error::UnsupportedCodec { .. } | Error::MissingDictionary { .. } => {
                UnsupportedCodecError::new_err(message)
            }
            Error::CorruptStore { .. } => CorruptStoreError::new_err(message),
            Error::CorruptRecord { path, record, chunk, offset, found, expected, .. } => {
                let error = CorruptRecordError::new_err(message);
                let instance = error.value(py);
                let noted = instance
                    .setattr("path", path.as_os_str())
                    .and_then(|()| instance.setattr("record", record))
                    .and_then(|()| instance.setattr("chunk", chunk))
                    .and_then(|()| instance.setattr("offset", offset))
                    .and_then(|()| instance.setattr("found", found))
                    .and_then(|()| instance.setattr("expected", expected));
                noted.err().unwrap_or(error)
            }
            Error::Locked { .. } => StoreLockedError::new_err(message),
            Error::Stale { .. } => StaleStoreError::new_err(message),
            Error::Codec(error) => error.raise(py),
            // NotAStore, UnsupportedVersion, Poisoned, Unfinished, Internal, and what is to come.
            _ => ZrecordError::new_err(message),
        }
    }
}

/// The operating system's refusal. Python picks the subclass by the error number.
fn os_error(verb: &str, path: &Path, source: &io::Error, message: String) -> PyErr {
    if path.as_os_str().as_bytes().contains(&0) {
        // No system call takes such a path; Python's own functions raise this for it too.
        return PyValueError::new_err(message);
    }
    let (code, text) = (errno(source), source.to_string());
    let reason = text.strip_suffix(&format!(" (os error {code})")).unwrap_or(&text);
    PyOSError::new_err((code, format!("could not {verb}: {reason}"), path.as_os_str().to_os_string()))
}

/// The error number, or the one closest to an error that the standard library or the core made itself.
fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or_else(|| match error.kind() {
        io::ErrorKind::NotFound => ENOENT,
        io::ErrorKind::PermissionDenied => EACCES,
        io::ErrorKind::AlreadyExists => EEXIST,
        io::ErrorKind::InvalidInput => EINVAL,
        _ => EIO,
    })
}

impl Raise for zrecord::CodecError {
    fn raise(self, _: Python<'_>) -> PyErr {
        use zrecord::CodecError;

        let message = self.to_string();
        match self {
            CodecError::UnknownName { .. }
            | CodecError::NoLevels { .. }
            | CodecError::LevelOutOfRange { .. }
            | CodecError::UnexpectedDictionary { .. }
            | CodecError::NotADictionary { .. }
            | CodecError::UnusableDictionary { .. }
            | CodecError::RecordTooLong { .. }
            | CodecError::SampleSizes { .. }
            | CodecError::TooManySamples { .. }
            | CodecError::TargetTooSmall { .. } => PyValueError::new_err(message),
            CodecError::MissingDictionary { .. } => UnsupportedCodecError::new_err(message),
            CodecError::OutOfMemory { .. } => PyMemoryError::new_err(message),
            // Too few samples, failed training, damaged frames, and what is to come.
            _ => ZrecordError::new_err(message),
        }
    }
}

impl Raise for zsampler::Error {
    fn raise(self, _: Python<'_>) -> PyErr {
        match self {
            zsampler::Error::IndexOutOfRange { .. } => PyIndexError::new_err(self.to_string()),
            _ => PyValueError::new_err(self.to_string()),
        }
    }
}

impl Raise for zloader::Error {
    fn raise(self, py: Python<'_>) -> PyErr {
        use zloader::Error;

        let message = self.to_string();
        match self {
            Error::Store(error) => error.raise(py),
            Error::Order(error) => error.raise(py),
            Error::InvalidArgument(_) => PyValueError::new_err(message),
            Error::OutOfMemory { .. } => PyMemoryError::new_err(message),
            Error::NoThread { .. } => PyRuntimeError::new_err(message),
            // Internal, and what is to come.
            _ => ZrecordError::new_err(message),
        }
    }
}
