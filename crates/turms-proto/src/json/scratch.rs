//! Reusable buffer for encoding values of unknown length.

use std::cell::Cell;

use bytestring::ByteString;

use super::EncodeError;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Takes the buffer of this thread. It is empty, but may have capacity from earlier use.
#[inline(never)]
pub(super) fn take() -> Vec<u8> {
    SCRATCH.try_with(Cell::take).unwrap_or_default()
}

/// Returns the written text: a copy of exact length if it is small, as most values are, else the buffer itself.
#[inline(never)]
pub(super) fn finish(mut written: Vec<u8>) -> Result<ByteString, EncodeError> {
    const SMALL: usize = 1024;
    if written.len() > SMALL {
        return ByteString::try_from(written).map_err(EncodeError::custom);
    }
    let text = ByteString::try_from(written.as_slice()).map_err(EncodeError::custom);
    written.clear();
    let _ = SCRATCH.try_with(|scratch| scratch.set(written));
    text
}

#[cfg(test)]
mod tests {
    use serde::ser::Error as _;
    use serde::{Serialize, Serializer};

    use crate::RawJson;

    struct Fails;

    impl Serialize for Fails {
        fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(S::Error::custom("no"))
        }
    }

    struct Nested;

    impl Serialize for Nested {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            RawJson::encode(&[1, 2]).map_err(S::Error::custom)?.serialize(serializer)
        }
    }

    #[test]
    fn values_do_not_meet_on_the_scratch() {
        let long = "x".repeat(3000);
        for _ in 0..2 {
            assert_eq!(RawJson::encode(&("a", Nested, "b")).unwrap().as_str(), r#"["a",[1,2],"b"]"#);
            assert!(RawJson::encode(&("left behind", Fails)).is_err());
            assert_eq!(RawJson::encode(&long).unwrap().as_str().len(), 3002);
            assert_eq!(RawJson::encode(&[&long, "y"]).unwrap().as_str().len(), 3008);
        }
    }
}
