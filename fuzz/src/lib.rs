//! What all targets share: an allocator that takes a request out of proportion for the finding that it is.
//!
//! Without a sanitizer libFuzzer doesn't see single allocations. Unsafe: everything is passed on to the system's allocator unchanged.

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::abort;

/// More than any input can need.
const MOST: usize = 64 << 20;

struct Limited;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

fn check(size: usize) {
    if size > MOST {
        // Panicking would allocate.
        eprintln!("an allocation of {size} bytes");
        abort();
    }
}

// SAFETY: the system's allocator, asked with the caller's own arguments.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        check(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        check(size);
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        unsafe { System.dealloc(memory, layout) }
    }
}
