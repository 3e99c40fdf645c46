//! Number of allocations and copied bytes between bytes and types.
//!
//! The numbers are measured. A change that increases them explains why in its commit; a change that reduces them
//! lowers them here.

#[path = "../benches/message/sample.rs"]
mod sample;

use allocation_counter::AllocationInfo;
use turms_proto::jsonrpc::encode;
use turms_proto::types::{CallToolResult, ListToolsResult, Outcome};
use turms_proto::{Envelopes, Message, RequestId};

use self::sample::{Forecast, LARGE, Note, Sample, TOOLS};

#[test]
fn a_small_call_is_classified_without_allocating() {
    let bytes = Sample::SmallCall.bytes();
    let info = cost(|| Envelopes::decode(&bytes, 1).unwrap());
    assert_count(&info, 0);
}

/// The allocation is the reference count of the buffer that all parts share.
#[test]
fn a_small_call_becomes_a_message_with_one_allocation() {
    let info = cost_of_reading(Sample::SmallCall.bytes(), |bytes| Message::decode(bytes).unwrap());
    assert_count(&info, 1);
}

/// The message; the name; text and reference count of `arguments` and `_meta`; the stack with which `serde_json` skips
/// them.
#[test]
fn a_small_call_becomes_typed_params_with_seven_allocations() {
    let info = cost_of_reading(Sample::SmallCall.bytes(), sample::params);
    assert_count(&info, 5);
}

#[test]
fn typed_arguments_allocate_only_what_they_hold() {
    let mut city = String::new();
    let info = cost_of_reading(Sample::SmallCall.bytes(), |bytes| {
        city = sample::arguments::<Forecast>(bytes).city;
    });
    assert_eq!(city, "Vienna");
    assert_count(&info, 5 + 1);
}

#[test]
fn a_small_result_is_read_with_four_allocations() {
    let info = cost_of_reading(Sample::SmallResult.bytes(), sample::result::<Outcome<CallToolResult>>);
    assert_count(&info, 4);
}

#[test]
fn messages_are_written_without_allocating() {
    for sample in Sample::ALL {
        let message = Message::decode(sample.bytes()).unwrap();
        let info = cost_of_writing(sample, |out| message.encode(out));
        assert_count(&info, 0);
    }
}

#[test]
fn tool_results_are_written_without_allocating() {
    for sample in [Sample::SmallResult, Sample::LargeResult] {
        let result: Outcome<CallToolResult> = sample::result(sample.bytes());
        let info = cost_of_writing(sample, |out| encode::success(out, &RequestId::from(17), &result).unwrap());
        assert_count(&info, 0);
    }
}

/// `serde_json` scans `arguments` and `_meta` again, and allocates a stack for the objects in the latter.
#[test]
fn typed_params_are_written_with_one_allocation() {
    let params = sample::params(Sample::SmallCall.bytes());
    let info = cost_of_writing(Sample::SmallCall, |out| {
        encode::request(out, &RequestId::from(17), "tools/call", Some(&params)).unwrap();
    });
    assert_count(&info, 1);
}

#[test]
fn a_large_argument_is_copied_once_on_its_way_to_typed_params() {
    for text in [sample::plain_text(), sample::text_of_lines()] {
        let info = cost_of_reading(sample::call_with(&text), sample::params);
        assert_copies(&info, 1.0);
    }
}

#[test]
fn a_large_argument_is_copied_twice_on_its_way_to_the_handler() {
    let info = cost_of_reading(sample::call_with(&sample::plain_text()), sample::arguments::<Note>);
    assert_copies(&info, 2.0);
}

#[test]
fn a_large_result_is_copied_once_on_its_way_to_the_type() {
    let bytes = sample::success(&CallToolResult::from_text(sample::plain_text()));
    let info = cost_of_reading(bytes, sample::result::<Outcome<CallToolResult>>);
    assert_copies(&info, 1.0);
}

/// `serde_json` unescapes into a growing buffer, and copies the text out of it.
#[test]
fn escapes_in_a_large_result_cost_the_growth_of_a_buffer() {
    let info = cost_of_reading(Sample::LargeResult.bytes(), sample::result::<Outcome<CallToolResult>>);
    assert_copies(&info, 3.6);
}

/// With sorted keys, `text` comes before `type`. It is stored as JSON until the type is known, and then decoded.
#[test]
fn a_large_result_before_its_type_is_read_twice() {
    let text = String::from_utf8(sample::success(&CallToolResult::from_text(sample::plain_text()))).unwrap();
    let text = text.replace(r#""type":"text","#, "").replace(r#""}]"#, r#"","type":"text"}]"#);
    let info = cost_of_reading(text.into_bytes(), sample::result::<Outcome<CallToolResult>>);
    assert_copies(&info, 4.5);
}

#[test]
fn a_list_of_tools_is_read_with_seven_allocations_for_each() {
    let info = cost_of_reading(Sample::ToolList.bytes(), sample::result::<ListToolsResult>);
    assert_count(&info, 7 * TOOLS + 11);
}

/// `serde_json` scans the two schemas of a tool again, and allocates a stack for each.
#[test]
fn a_list_of_tools_is_written_with_two_allocations_for_each() {
    let list: ListToolsResult = sample::result(Sample::ToolList.bytes());
    let info = cost_of_writing(Sample::ToolList, |out| {
        encode::success(out, &RequestId::from(17), &list).unwrap();
    });
    assert_count(&info, 2 * TOOLS);
}

/// Returns the cost of `work`. Its result is dropped outside of the measurement.
fn cost<T>(work: impl FnOnce() -> T) -> AllocationInfo {
    let mut done = None;
    let info = allocation_counter::measure(|| done = Some(work()));
    drop(done);
    info
}

fn cost_of_reading<T>(bytes: Vec<u8>, read: impl FnOnce(Vec<u8>) -> T) -> AllocationInfo {
    cost(move || read(bytes))
}

/// Returns the cost of encoding a sample into a buffer with sufficient capacity.
fn cost_of_writing(sample: Sample, write: impl FnOnce(&mut Vec<u8>)) -> AllocationInfo {
    let expected = sample.bytes();
    let mut out = Vec::with_capacity(expected.len());
    let info = cost(|| write(&mut out));
    assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&expected));
    info
}

#[track_caller]
fn assert_count(info: &AllocationInfo, most: usize) {
    assert!(info.count_total <= most as u64, "more than {most} allocations: {info:?}");
}

/// Asserts that at most `times` copies of the large text are made, with a tenth of it for everything else.
#[track_caller]
fn assert_copies(info: &AllocationInfo, copies: f64) {
    let copied = info.bytes_total as f64 / LARGE as f64;
    assert!(copied <= copies + 0.1, "{copied} times the text, not {copies}: {info:?}");
}
