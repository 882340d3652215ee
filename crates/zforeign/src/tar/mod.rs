//! Tar archives as samples: where the files lie, by a walk over the headers.
//!
//! Formats: ustar and pax of POSIX.1-2008, and GNU's long names and large sizes.

mod header;
mod pax;
mod samples;
#[cfg(test)]
mod tests;
mod walk;

#[cfg(any(test, fuzzing))]
pub(crate) use header::seal;
pub use samples::{Files, MISSING, Samples};
pub use walk::{ArrayHeader, Arrays, Walk};
