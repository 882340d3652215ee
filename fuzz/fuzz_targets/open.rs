#![no_main]

use zrecord_fuzz as _;

libfuzzer_sys::fuzz_target!(|data: &[u8]| zrecord::fuzzing::open(data));
