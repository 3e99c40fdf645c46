//! Property tests of messages: decoding inverts encoding, and chunk boundaries do not matter.

use proptest::prelude::*;
use proptest::{collection, option};
use serde_json::{Map, Value};
use turms_proto::jsonrpc::encode;
use turms_proto::{
    ErrorCode, ErrorObject, Incoming, Lines, Message, Notification, Object, RawJson, Request, RequestId, Response,
};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_message_reads_back_as_it_was_written(message in message()) {
        let bytes = written(&message);
        prop_assert!(!bytes.contains(&b'\n'));
        prop_assert_eq!(Message::decode(bytes).unwrap(), message);
    }

    #[test]
    fn a_message_within_json_reads_back_as_it_was_written(message in message()) {
        let json = serde_json::to_string(&message).unwrap();
        prop_assert_eq!(serde_json::from_str::<Message>(&json).unwrap(), message);
    }

    #[test]
    fn a_batch_reads_back_as_it_was_written(messages in collection::vec(message(), 1..5)) {
        let mut bytes = Vec::new();
        encode::batch(&mut bytes, &messages);
        let expected = Incoming::Batch(messages.into_iter().map(Ok).collect());
        prop_assert_eq!(Incoming::decode(bytes, 5).unwrap(), expected);
    }

    #[test]
    fn a_stream_cut_anywhere_gives_the_same_messages(
        messages in collection::vec(message(), 0..5),
        lengths in collection::vec(1_usize..40, 1..8),
    ) {
        let stream: Vec<u8> = messages.iter().flat_map(|message| [written(message), vec![b'\n']].concat()).collect();
        prop_assert_eq!(read_in_chunks(&stream, &lengths), messages);
    }
}

fn written(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

/// Reads a stream in chunks of these lengths, repeated cyclically.
fn read_in_chunks(mut stream: &[u8], lengths: &[usize]) -> Vec<Message> {
    let mut lines = Lines::new(Lines::DEFAULT_LIMIT);
    let mut messages = Vec::new();
    for length in lengths.iter().cycle() {
        let (chunk, rest) = stream.split_at(stream.len().min(*length));
        lines.buffer().extend_from_slice(chunk);
        while let Some(line) = lines.next_line() {
            messages.push(Message::decode(line.expect("no line is that long")).expect("every line is a message"));
        }
        if rest.is_empty() {
            return messages;
        }
        stream = rest;
    }
    messages
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (id(), text(), params()).prop_map(|(id, method, params)| Message::Request(Request::raw(id, method, params))),
        (text(), params()).prop_map(|(method, params)| Message::Notification(Notification::raw(method, params))),
        (id(), json()).prop_map(|(id, result)| Message::Response(Response::new(id, Ok(result.into())))),
        (id(), error()).prop_map(|(id, error)| Message::Response(Response::new(id, Err(error)))),
        error().prop_map(|error| Message::Response(Response::without_id(error))),
    ]
}

fn id() -> impl Strategy<Value = RequestId> {
    prop_oneof![any::<i64>().prop_map(RequestId::from), text().prop_map(RequestId::from)]
}

fn params() -> impl Strategy<Value = Option<RawJson>> {
    option::of(object().prop_map(RawJson::from))
}

fn error() -> impl Strategy<Value = ErrorObject> {
    (any::<i64>(), text(), option::of(json())).prop_map(|(code, message, data)| {
        let error = ErrorObject::new(ErrorCode(code), message);
        match data {
            Some(data) => error.data(data),
            None => error,
        }
    })
}

fn object() -> impl Strategy<Value = Object> {
    collection::btree_map(text(), json(), 0..4).prop_map(|members| Object::from(Map::from_iter(members)))
}

/// Any characters, including control characters, which proptest's strings omit.
fn text() -> impl Strategy<Value = String> {
    collection::vec(any::<char>(), 0..12).prop_map(String::from_iter)
}

fn json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            collection::btree_map(text(), inner, 0..4).prop_map(|members| Map::from_iter(members).into()),
        ]
    })
}
