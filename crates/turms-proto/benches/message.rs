//! Cost of decoding and encoding messages.
//!
//! Every case of `decode` starts with bytes and includes the steps before it, so `params` includes `message`. Every
//! case of `encode` ends with bytes in a reused buffer. `value` is the baseline: the same message through
//! `serde_json::Value`. Compare ratios to `value` instead of times of different machines.
//!
//! With glibc, the cost of `arguments` of a large call is mostly memory that is released and allocated again. To
//! exclude it, set `MALLOC_TRIM_THRESHOLD_` and `MALLOC_MMAP_THRESHOLD_` to 1000000000.

#[path = "message/sample.rs"]
mod sample;

use divan::counter::BytesCount;
use divan::{AllocProfiler, Bencher, black_box};
use serde_json::Value;
use turms_proto::Message;
use turms_proto::types::{CallToolResult, ListToolsResult, Outcome};

use self::sample::Sample;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

mod decode {
    use turms_proto::Envelopes;

    use super::*;

    #[divan::bench(args = Sample::ALL)]
    fn value(bencher: Bencher<'_, '_>, sample: Sample) {
        measure(bencher, sample, |bytes| serde_json::from_slice::<Value>(&bytes));
    }

    #[divan::bench(args = Sample::ALL)]
    fn envelope(bencher: Bencher<'_, '_>, sample: Sample) {
        let bytes = sample.bytes();
        bencher.counter(BytesCount::of_slice(&bytes)).bench_local(|| Envelopes::decode(black_box(&bytes), 1));
    }

    #[divan::bench(args = Sample::ALL)]
    fn message(bencher: Bencher<'_, '_>, sample: Sample) {
        measure(bencher, sample, Message::decode);
    }

    #[divan::bench(args = Sample::CALLS)]
    fn params(bencher: Bencher<'_, '_>, sample: Sample) {
        measure(bencher, sample, sample::params);
    }

    #[divan::bench(args = Sample::CALLS)]
    fn arguments(bencher: Bencher<'_, '_>, sample: Sample) {
        match sample {
            Sample::SmallCall => measure(bencher, sample, sample::arguments::<sample::Forecast>),
            _ => measure(bencher, sample, sample::arguments::<sample::Note>),
        }
    }

    #[divan::bench(args = Sample::RESULTS)]
    fn result(bencher: Bencher<'_, '_>, sample: Sample) {
        match sample {
            Sample::ToolList => measure(bencher, sample, sample::result::<ListToolsResult>),
            _ => measure(bencher, sample, sample::result::<Outcome<CallToolResult>>),
        }
    }

    /// Each run gets its own bytes, as from a connection. Creating them and dropping the result is not measured.
    fn measure<T>(bencher: Bencher<'_, '_>, sample: Sample, read: impl Fn(Vec<u8>) -> T) {
        let bytes = sample.bytes();
        bencher.counter(BytesCount::of_slice(&bytes)).with_inputs(|| bytes.clone()).bench_local_values(read);
    }
}

mod encode {
    use turms_proto::RequestId;
    use turms_proto::jsonrpc::encode;

    use super::*;

    #[divan::bench(args = Sample::ALL)]
    fn value(bencher: Bencher<'_, '_>, sample: Sample) {
        let value: Value = serde_json::from_slice(&sample.bytes()).expect("a sample is JSON");
        measure(bencher, sample, |out| {
            serde_json::to_writer(out, &value).expect("a value is JSON");
        });
    }

    /// The contents of the message are already JSON text.
    #[divan::bench(args = Sample::ALL)]
    fn message(bencher: Bencher<'_, '_>, sample: Sample) {
        let message = Message::decode(sample.bytes()).expect("a sample is a message");
        measure(bencher, sample, |out| message.encode(out));
    }

    #[divan::bench(args = Sample::CALLS)]
    fn params(bencher: Bencher<'_, '_>, sample: Sample) {
        let params = sample::params(sample.bytes());
        measure(bencher, sample, |out| {
            encode::request(out, &RequestId::from(17), "tools/call", Some(&params)).expect("parameters are JSON");
        });
    }

    #[divan::bench(args = Sample::RESULTS)]
    fn result(bencher: Bencher<'_, '_>, sample: Sample) {
        match sample {
            Sample::ToolList => measure_result(bencher, sample, &sample::result::<ListToolsResult>(sample.bytes())),
            _ => measure_result(bencher, sample, &sample::result::<Outcome<CallToolResult>>(sample.bytes())),
        }
    }

    fn measure_result(bencher: Bencher<'_, '_>, sample: Sample, result: &impl serde::Serialize) {
        measure(bencher, sample, |out| {
            encode::success(out, &RequestId::from(17), result).expect("a result is JSON");
        });
    }

    fn measure(bencher: Bencher<'_, '_>, sample: Sample, write: impl Fn(&mut Vec<u8>)) {
        let mut out = sample.bytes();
        bencher.counter(BytesCount::of_slice(&out)).bench_local(move || {
            out.clear();
            write(black_box(&mut out));
        });
    }
}
