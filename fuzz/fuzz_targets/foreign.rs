#![no_main]

use zrecord_fuzz as _;

libfuzzer_sys::fuzz_target!(|data: &[u8]| zforeign::fuzzing::foreign(data));
