#![no_main]

#[path = "../targets/sse.rs"]
mod sse;

libfuzzer_sys::fuzz_target!(|data: &[u8]| sse::sse(data));
