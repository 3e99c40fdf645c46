use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;
use turms_proto::jsonrpc::encode;
use turms_proto::revision::{
    lower_notification, lower_params, lower_result, raise_notification, raise_params, raise_result,
};
use turms_proto::{
    DecodeError, Envelope, Envelopes, ErrorCode, Incoming, MAX_DEPTH, Message, MessageError, ProtocolVersion, RawJson,
};

const BATCH_LIMIT: usize = 8;

/// Fuzz target for decoding one line or body. Checks that borrowed and owned decoding agree with each other, and with
/// `serde_json` about which input is valid JSON; that messages round-trip; and that translating them to any revision is
/// idempotent.
pub fn envelope(data: &[u8]) {
    let borrowed = Envelopes::decode(data, BATCH_LIMIT);
    assert_agrees_with_serde_json(data, &borrowed);
    assert_values_agree_with_serde_json(data);
    let owned = Incoming::decode(Bytes::copy_from_slice(data), BATCH_LIMIT);
    match (borrowed, owned) {
        (Err(borrowed), Err(owned)) => assert_eq!(borrowed, owned),
        (Ok(Envelopes::One(envelope)), Ok(Incoming::One(message))) => {
            assert_same(&envelope, &message);
            assert_round_trip(&message);
            assert_translates_to_every_revision(&message);
        }
        (Ok(Envelopes::Batch(envelopes)), Ok(Incoming::Batch(messages))) => assert_same_batch(&envelopes, &messages),
        (borrowed, owned) => panic!("borrowed {borrowed:?}, owned {owned:?}"),
    }
}

fn assert_agrees_with_serde_json(data: &[u8], read: &Result<Envelopes<'_>, MessageError>) {
    let theirs = serde_json::from_slice::<&RawValue>(data);
    match read {
        Ok(_) => assert!(theirs.is_ok(), "{theirs:?}"),
        // `serde_json` limits the depth of values that it parses, not of those that it skips.
        Err(invalid) if invalid.error.message.contains(&format!("deeper than {MAX_DEPTH}")) => {}
        Err(invalid) if invalid.error.code == ErrorCode::PARSE_ERROR => assert!(theirs.is_err(), "{invalid}"),
        Err(_) => {}
    }
}

/// Asserts that values are decoded and encoded as `serde_json` does.
fn assert_values_agree_with_serde_json(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (ours, theirs) = (turms_proto::decode::<Value>(text), serde_json::from_str::<Value>(text));
    assert_eq!(ours.as_ref().ok(), theirs.as_ref().ok());
    if let Ok(value) = theirs {
        let written = RawJson::encode(&value).map(|json| json.as_str().to_owned());
        assert_eq!(written.ok(), serde_json::to_string(&value).ok());
    }
}

fn assert_same_batch(envelopes: &[Result<Envelope<'_>, MessageError>], messages: &[Result<Message, MessageError>]) {
    assert_eq!(envelopes.len(), messages.len());
    for pair in envelopes.iter().zip(messages) {
        match pair {
            (Ok(envelope), Ok(message)) => assert_same(envelope, message),
            (Err(borrowed), Err(owned)) => assert_eq!(borrowed, owned),
            (borrowed, owned) => panic!("borrowed {borrowed:?}, owned {owned:?}"),
        }
    }
    let valid: Vec<Message> = messages.iter().flatten().cloned().collect();
    if !valid.is_empty() {
        let mut out = Vec::new();
        encode::batch(&mut out, &valid);
        let expected = Incoming::Batch(valid.into_iter().map(Ok).collect());
        assert_eq!(Incoming::decode(out, BATCH_LIMIT), Ok(expected));
    }
}

fn assert_same(envelope: &Envelope<'_>, message: &Message) {
    match (envelope, message) {
        (Envelope::Request { id, method, params }, Message::Request(request)) => {
            assert_eq!((id, &**method), (&request.id, &*request.method));
            assert_same_text(*params, request.params.as_ref());
        }
        (Envelope::Notification { method, params }, Message::Notification(notification)) => {
            assert_eq!(&**method, &*notification.method);
            assert_same_text(*params, notification.params.as_ref());
        }
        (Envelope::Success { id, result }, Message::Response(response)) => {
            assert_eq!(Some(id), response.id.as_ref());
            assert_same_text(Some(result), response.outcome.as_ref().ok());
        }
        (Envelope::Failure { id, error }, Message::Response(response)) => {
            assert_eq!((id, Err(error)), (&response.id, response.outcome.as_ref()));
        }
        different => panic!("{different:?}"),
    }
}

/// Asserts that the owned text is the borrowed one on one line.
fn assert_same_text(borrowed: Option<&str>, owned: Option<&RawJson>) {
    let on_one_line = borrowed.map(|text| text.replace(['\n', '\r'], " "));
    assert_eq!(on_one_line.as_deref(), owned.map(RawJson::as_str));
    // The members that were indexed while decoding must be the same as those found in the text.
    if let (Some(text), Some(owned)) = (on_one_line, owned) {
        let plain = RawJson::parse(text).expect("the text was decoded before");
        assert_eq!((owned.meta(), owned.members(["name", "_meta"])), (plain.meta(), plain.members(["name", "_meta"])));
    }
}

fn assert_round_trip(message: &Message) {
    let mut out = Vec::new();
    message.encode(&mut out);
    assert!(!out.contains(&b'\n') && !out.contains(&b'\r'));
    assert_eq!(Message::decode(out).as_ref(), Ok(message));
}

fn assert_translates_to_every_revision(message: &Message) {
    match message {
        Message::Request(request) => {
            assert_translates(&request.method, request.params.as_ref(), lower_params, raise_params);
        }
        Message::Notification(notification) => {
            assert_translates(
                &notification.method,
                notification.params.as_ref(),
                lower_notification,
                raise_notification,
            );
        }
        // A response does not name its method, so it is translated as the result of several methods.
        Message::Response(response) => {
            for method in ["tools/call", "tools/list", "prompts/get", "resources/read", "sampling/createMessage"] {
                assert_translates(method, response.outcome.as_ref().ok(), lower_result, raise_result);
            }
        }
    }
}

type TranslateFn = fn(&str, &RawJson, ProtocolVersion) -> Result<RawJson, DecodeError>;

/// Asserts that translating a second time changes nothing.
fn assert_translates(method: &str, value: Option<&RawJson>, lower: TranslateFn, raise: TranslateFn) {
    let Some(value) = value else { return };
    for version in ProtocolVersion::ALL {
        for translate in [lower, raise] {
            if let Ok(once) = translate(method, value, version) {
                let twice = translate(method, &once, version);
                assert_eq!(twice.as_ref(), Ok(&once), "{method} in {version} of {value}");
            }
        }
    }
}
