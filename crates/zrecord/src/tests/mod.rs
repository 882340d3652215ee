//! Tests of whole stores against a naive twin: what they must hold after any operations, and after any cut.

mod crash;
mod laws;
mod model;
mod repair;
mod twin;
