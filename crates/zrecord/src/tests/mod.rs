//! Tests of whole stores against a naive twin: what they must hold after any operations, and after any cut.

#[cfg(test)]
mod crash;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod model;
pub(crate) mod twin;
