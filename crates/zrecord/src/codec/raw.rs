//! The codec that stores a record as it is.

use std::mem::MaybeUninit;

use super::{CodecError, uninit};

pub(super) fn encode(record: &[u8], out: &mut Vec<u8>) -> Result<usize, CodecError> {
    out.try_reserve(record.len()).map_err(|_| CodecError::OutOfMemory { purpose: "a record" })?;
    out.extend_from_slice(record);
    Ok(record.len())
}

pub(super) fn decode(stored: &[u8], dst: &mut [MaybeUninit<u8>]) -> Result<(), CodecError> {
    let (found, expected) = (stored.len() as u64, dst.len());
    if uninit::copy(stored, dst) { Ok(()) } else { Err(CodecError::WrongLength { found, expected }) }
}
