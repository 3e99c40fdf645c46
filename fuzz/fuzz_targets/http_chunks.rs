#![no_main]
#![allow(dead_code, reason = "each fuzz binary calls one of the functions")]

#[path = "../targets/http.rs"]
mod http;

libfuzzer_sys::fuzz_target!(|data: &[u8]| http::http_chunks(data));
