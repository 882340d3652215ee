//! A buffer that is allocated once and written by several threads.

use memmap2::{Advice, MmapMut};

use crate::Fallible;

pub struct Buffer {
    map: MmapMut,
}

/// Where threads write. Each writes its own ranges.
#[derive(Clone, Copy)]
pub struct Destination {
    start: *mut u8,
    len: usize,
}

// SAFETY: whoever calls `slice` promises that no two threads use overlapping ranges.
unsafe impl Send for Destination {}
// SAFETY: as above.
unsafe impl Sync for Destination {}

impl Buffer {
    /// `len` bytes on huge pages where the system has them, all touched.
    pub fn new(len: usize) -> Fallible<Self> {
        let mut map = MmapMut::map_anon(len.max(1))?;
        // Without huge pages it is slower, not wrong.
        let _ = map.advise(Advice::HugePage);
        map.fill(1);
        Ok(Self { map })
    }

    pub fn destination(&mut self) -> Destination {
        Destination { start: self.map.as_mut_ptr(), len: self.map.len() }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.map
    }
}

impl Destination {
    /// The bytes from `start` on.
    ///
    /// # Safety
    /// Nobody else uses an overlapping range while the slice lives, and the buffer outlives it.
    pub unsafe fn slice<'a>(self, start: usize, len: usize) -> &'a mut [u8] {
        assert!(start <= self.len && len <= self.len - start, "a record beyond the buffer");
        // SAFETY: in bounds as just checked; alone as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }
}
