#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| turms_testkit::fuzz::challenge(data));
