//! Tests of whole stores against a naive twin: what they must hold after any operations, and after any cut.

#[cfg(test)]
mod append;
#[cfg(test)]
mod cold;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod model;
#[cfg(test)]
mod repair;
pub(crate) mod twin;
#[cfg(test)]
mod uniform;
