//! A memory handler of NumPy's (NEP 49) that has the memory of one array at a time.
//!
//! NumPy asks its handler for the memory of an array that it makes, and the array keeps the handler, to which it gives its memory back
//! in the end. A handler of ours is offered the memory of a batch, hands it out once, and has room for the next one when it comes back.
//! So each knows what is out by itself: there is no table of it, and no lock that a fork could leave held.
//!
//! What could go wrong with the unsafe here:
//! - a handler that is called after its end. It is its capsule's, and whoever may call it holds a reference to that: each array whose
//!   memory it is about, and the contexts where it is NumPy's handler.
//! - memory that is handed out twice, or given back to whom it isn't from. Handlers may be asked for the memory of arrays that aren't
//!   ours too, say by a finalizer that runs meanwhile. So memory is handed out by an atomic exchange, and what comes back is compared
//!   with what is out by another; all else is from the C library and goes back there.
//! - calls from the garbage collector, from any thread, and as the process ends. They don't touch the interpreter, don't panic, and
//!   don't wait.
//! - a handler that NumPy sees otherwise than it is here: its layout is part of NumPy's ABI, and has a version.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use zloader::Memory;

/// What NumPy calls the capsules of handlers.
const CAPSULE: &CStr = c"mem_handler";
/// What NumPy says whose the memory of an array is.
const NAME: &[u8] = b"loaderx";

/// `PyDataMem_Handler`, version 1, which is what NumPy sees of it; then what is ours.
#[repr(C)]
struct Layout {
    name: [c_char; 127],
    version: u8,
    /// The `lot` of this very value.
    context: *const Lot,
    malloc: unsafe extern "C" fn(*const Lot, usize) -> *mut c_void,
    calloc: unsafe extern "C" fn(*const Lot, usize, usize) -> *mut c_void,
    realloc: unsafe extern "C" fn(*const Lot, *mut c_void, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*const Lot, *mut c_void, usize),
    lot: Lot,
}

// SAFETY: what keeps it from being so is `context`, which points to the value's own `lot`.
unsafe impl Send for Layout {}

/// The memory that a handler has.
#[derive(Default)]
struct Lot {
    /// From when memory is offered until it came back. Who changes it from false to true may offer memory.
    busy: AtomicBool,
    /// Where the memory starts that can be handed out; null if there is none. Who changes it to null hands it out.
    ready: AtomicPtr<c_void>,
    /// How much NumPy will ask for: arrays without elements have a byte.
    asked: AtomicUsize,
    /// Where the memory starts that is out; null if none is. Who changes it to null has the memory.
    out: AtomicPtr<c_void>,
    /// Locked only by whoever offers the memory or has it, so nobody waits.
    memory: Mutex<Option<Memory>>,
}

impl Lot {
    fn hand_out(&self, size: usize) -> Option<*mut c_void> {
        if size != self.asked.load(Ordering::Acquire) {
            return None;
        }
        let start = self.ready.swap(ptr::null_mut(), Ordering::AcqRel);
        if start.is_null() {
            return None;
        }
        self.out.store(start, Ordering::Release);
        Some(start)
    }

    /// Whether this is the memory that is out; then the caller has it.
    fn take(&self, memory: *mut c_void) -> bool {
        let nothing = ptr::null_mut();
        !memory.is_null()
            && self.out.compare_exchange(memory, nothing, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The end of memory that nobody has.
    fn end(&self) {
        let memory = self.memory.try_lock().ok().and_then(|mut memory| memory.take());
        self.busy.store(false, Ordering::Release);
        drop(memory);
    }

    /// Put memory of another size with the same content in the place of that which the caller has. `None` changes nothing.
    fn resize(&self, size: usize) -> Option<*mut c_void> {
        let mut memory = self.memory.try_lock().ok()?;
        let old = memory.as_ref()?.as_slice();
        let mut new = Memory::new(size.max(1))?;
        let same = old.len().min(new.len());
        new.as_mut_slice().get_mut(..same)?.copy_from_slice(old.get(..same)?);
        let start = new.as_mut_slice().as_mut_ptr().cast();
        *memory = Some(new);
        Some(start)
    }
}

unsafe extern "C" fn malloc(lot: *const Lot, size: usize) -> *mut c_void {
    // SAFETY: NumPy hands us what it finds in the handler, which is alive while it is called.
    let ours = unsafe { &*lot }.hand_out(size);
    // SAFETY: any size may be asked for.
    ours.unwrap_or_else(|| unsafe { libc::malloc(size) })
}

/// Memory of batches isn't zeroed, so this is for others.
unsafe extern "C" fn calloc(_: *const Lot, count: usize, size: usize) -> *mut c_void {
    // SAFETY: any size may be asked for.
    unsafe { libc::calloc(count, size) }
}

unsafe extern "C" fn realloc(lot: *const Lot, memory: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: as in `malloc`.
    let lot = unsafe { &*lot };
    if !lot.take(memory) {
        // SAFETY: a handler has no memory but the batch's and the C library's.
        return unsafe { libc::realloc(memory, size) };
    }
    let new = lot.resize(size);
    lot.out.store(new.unwrap_or(memory), Ordering::Release);
    new.unwrap_or_default()
}

/// The size isn't looked at: it is what the array says of itself.
unsafe extern "C" fn free(lot: *const Lot, memory: *mut c_void, _: usize) {
    // SAFETY: as in `malloc`.
    let lot = unsafe { &*lot };
    if lot.take(memory) {
        lot.end();
    } else {
        // SAFETY: as in `realloc`.
        unsafe { libc::free(memory) };
    }
}

/// A handler, as NumPy wants it.
pub(crate) struct Handler {
    capsule: Py<PyCapsule>,
    lot: *const Lot,
}

// SAFETY: `lot` is the capsule's, which this keeps alive, and all threads may look at it.
unsafe impl Send for Handler {}

impl Handler {
    pub(crate) fn new(py: Python<'_>) -> PyResult<Self> {
        let mut name = [0; 127];
        for (to, from) in name.iter_mut().zip(NAME) {
            *to = c_char::from_ne_bytes([*from]);
        }
        let context = ptr::null();
        let layout = Layout { name, version: 1, context, malloc, calloc, realloc, free, lot: Lot::default() };
        let capsule = PyCapsule::new_with_value(py, layout, CAPSULE)?;
        let layout = capsule.pointer_checked(Some(CAPSULE))?.cast::<Layout>().as_ptr();
        // SAFETY: the capsule's value, which stays where it is to the capsule's end, and which nobody else knows yet.
        let lot = unsafe {
            let lot = &raw const (*layout).lot;
            (*layout).context = lot;
            lot
        };
        Ok(Self { capsule: capsule.unbind(), lot })
    }

    pub(crate) fn capsule<'py>(&self, py: Python<'py>) -> &Bound<'py, PyCapsule> {
        self.capsule.bind(py)
    }

    fn lot(&self) -> &Lot {
        // SAFETY: the capsule's, which lives as long as this does.
        unsafe { &*self.lot }
    }

    /// Whether memory can be offered.
    pub(crate) fn is_idle(&self) -> bool {
        !self.lot().busy.load(Ordering::Acquire)
    }

    /// Have this memory handed out to the next array of its size; returns where it starts. `None` for a handler that isn't idle.
    pub(crate) fn offer(&self, mut memory: Memory) -> Option<*const u8> {
        let lot = self.lot();
        if lot.busy.swap(true, Ordering::AcqRel) {
            return None;
        }
        // It stays where it is when its owner moves.
        let start = memory.as_mut_slice().as_mut_ptr();
        lot.asked.store(memory.len().max(1), Ordering::Release);
        *lot.memory.try_lock().ok()? = Some(memory);
        lot.ready.store(start.cast(), Ordering::Release);
        Some(start)
    }

    /// Drop the memory that was offered, if no array has taken it.
    pub(crate) fn withdraw(&self) {
        let lot = self.lot();
        if !lot.ready.swap(ptr::null_mut(), Ordering::AcqRel).is_null() {
            lot.end();
        }
    }
}
