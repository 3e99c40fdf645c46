use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use turms_proto::revision::Translate;
use turms_proto::{DecodeError, EncodeError, Object, ProtocolVersion, RawJson, decode};

/// The parameters of a request or the result of a response: JSON from a transport, or a typed value of this process.
///
/// A typed value is encoded only when it is sent over a transport, and only once. Within one process it is moved.
///
/// ```
/// # mod turms { pub use turms_core as layer; pub use turms_proto::types; }
/// use turms::layer::Payload;
/// use turms::types::CallToolResult;
///
/// let payload = Payload::new(CallToolResult::from_text("hi"));
/// let result: CallToolResult = payload.take()?;
/// assert_eq!(result.text(), "hi");
/// # Ok::<(), turms_proto::DecodeError>(())
/// ```
pub struct Payload(Repr);

enum Repr {
    Json {
        json: RawJson,
        /// Set if the JSON is in the peer's revision already.
        is_lowered: bool,
    },
    Typed(Box<dyn TypedValue>),
    Shared(Arc<dyn SharedValue>),
}

/// A typed value of this process that can be encoded.
trait TypedValue: Any + Send + Sync {
    fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError>;
    fn lower(&mut self, to: ProtocolVersion);
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

impl<T: Serialize + Translate + Send + Sync + 'static> TypedValue for T {
    fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        turms_proto::jsonrpc::encode::value(out, self)
    }

    fn lower(&mut self, to: ProtocolVersion) {
        Translate::lower(self, to);
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A typed value that is cloned when it is taken or changed.
trait SharedValue: TypedValue {
    fn cloned(self: Arc<Self>) -> Box<dyn TypedValue>;
    fn into_shared_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<T: TypedValue + Clone> SharedValue for T {
    fn cloned(self: Arc<Self>) -> Box<dyn TypedValue> {
        Box::new(Arc::unwrap_or_clone(self))
    }

    fn into_shared_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl Payload {
    /// Creates a payload from a typed value.
    pub fn new<T: Serialize + Translate + Send + Sync + 'static>(value: T) -> Self {
        Self(Repr::Typed(Box::new(value)))
    }

    /// Creates a payload from a shared value, such as one that may have to be sent again. It is cloned when it is taken or changed, but not
    /// to be encoded.
    pub fn shared<T: Serialize + Translate + Clone + Send + Sync + 'static>(value: Arc<T>) -> Self {
        Self(Repr::Shared(value))
    }

    /// Clones a shared value, so that it can be changed.
    fn make_owned(&mut self) {
        if let Repr::Shared(value) = &self.0 {
            self.0 = Repr::Typed(value.clone().cloned());
        }
    }

    /// Creates a payload from JSON of the newest revision. It is lowered to the revision of the peer that it is sent to.
    #[must_use]
    pub fn json(json: RawJson) -> Self {
        Self(Repr::Json { json, is_lowered: false })
    }

    /// Creates a payload from JSON that is in the peer's revision already, such as a cached list.
    #[must_use]
    pub fn lowered(json: RawJson) -> Self {
        Self(Repr::Json { json, is_lowered: true })
    }

    /// Takes the value as a `T`: moved if it has that type, decoded otherwise.
    ///
    /// # Errors
    /// If it cannot be decoded as a `T`.
    pub fn take<T: DeserializeOwned + 'static>(self) -> Result<T, DecodeError> {
        match self.0 {
            Repr::Shared(value) => Self(Repr::Typed(value.cloned())).take(),
            Repr::Json { json, .. } => json.decode(),
            Repr::Typed(value) if value.as_any().is::<T>() => match value.into_any().downcast() {
                Ok(value) => Ok(*value),
                Err(_) => unreachable!("the type was just checked"),
            },
            Repr::Typed(value) => decode(&encode_to_string(&*value)?),
        }
    }

    /// Returns the value if it is typed and a `T`.
    #[must_use]
    pub fn get<T: 'static>(&self) -> Option<&T> {
        match &self.0 {
            Repr::Typed(value) => (**value).as_any().downcast_ref(),
            Repr::Shared(value) => (**value).as_any().downcast_ref(),
            Repr::Json { .. } => None,
        }
    }

    /// Returns the value if it is shared and a `T`.
    #[doc(hidden)]
    #[must_use]
    pub fn share<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        match &self.0 {
            Repr::Shared(value) => value.clone().into_shared_any().downcast().ok(),
            Repr::Json { .. } | Repr::Typed(_) => None,
        }
    }

    /// Returns the value for changes if it is typed and a `T`. Clones it first if it is shared.
    pub fn get_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.make_owned();
        match &mut self.0 {
            Repr::Typed(value) => (**value).as_any_mut().downcast_mut(),
            Repr::Json { .. } | Repr::Shared(_) => None,
        }
    }

    /// Returns the JSON, unless the value is typed.
    #[must_use]
    pub fn as_raw(&self) -> Option<&RawJson> {
        match &self.0 {
            Repr::Json { json, .. } => Some(json),
            Repr::Typed(_) | Repr::Shared(_) => None,
        }
    }

    /// Converts the value to JSON.
    ///
    /// # Errors
    /// If it cannot be encoded as JSON.
    pub fn into_raw(self) -> Result<RawJson, EncodeError> {
        if let Repr::Json { json, .. } = self.0 {
            return Ok(json);
        }
        let mut out = Vec::new();
        self.write(&mut out)?;
        let text = String::from_utf8(out).map_err(EncodeError::custom)?;
        RawJson::parse(text).map_err(EncodeError::custom)
    }

    /// Appends the value as JSON to a buffer, which is unchanged on failure.
    ///
    /// # Errors
    /// If it cannot be encoded as JSON.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match &self.0 {
            Repr::Json { json, .. } => {
                out.extend_from_slice(json.as_str().as_bytes());
                Ok(())
            }
            Repr::Typed(value) => value.write(out),
            Repr::Shared(value) => value.write(out),
        }
    }

    /// Returns the number of bytes that [`Payload::write`] appends, or 0 if that is not known.
    #[doc(hidden)]
    #[must_use]
    pub fn size_hint(&self) -> usize {
        self.as_raw().map_or(0, |json| json.as_str().len())
    }

    /// Lowers the result of `method` to the revision `to`.
    ///
    /// # Errors
    /// If it is JSON and not a valid result of the method.
    #[doc(hidden)]
    pub fn lower_result(&mut self, method: &str, to: ProtocolVersion) -> Result<(), DecodeError> {
        self.make_owned();
        match &mut self.0 {
            Repr::Typed(value) => value.lower(to),
            Repr::Json { json, is_lowered: false } => *json = turms_proto::revision::lower_result(method, json, to)?,
            Repr::Json { .. } | Repr::Shared(_) => {}
        }
        Ok(())
    }

    /// Lowers the parameters of `method` to the revision `to`.
    ///
    /// # Errors
    /// If they are JSON and not valid parameters of the method.
    #[doc(hidden)]
    pub fn lower_params(&mut self, method: &str, to: ProtocolVersion) -> Result<(), DecodeError> {
        self.make_owned();
        match &mut self.0 {
            Repr::Typed(value) => value.lower(to),
            Repr::Json { json, is_lowered: false } => *json = turms_proto::revision::lower_params(method, json, to)?,
            Repr::Json { .. } | Repr::Shared(_) => {}
        }
        Ok(())
    }
}

#[cold]
fn encode_to_string(value: &dyn TypedValue) -> Result<String, DecodeError> {
    let mut out = Vec::new();
    value.write(&mut out).map_err(DecodeError::custom)?;
    String::from_utf8(out).map_err(DecodeError::custom)
}

/// An empty object: no parameters.
impl Default for Payload {
    fn default() -> Self {
        Self::json(Object::new().into())
    }
}

impl From<RawJson> for Payload {
    fn from(json: RawJson) -> Self {
        Self::json(json)
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::new();
        match self.write(&mut out) {
            Ok(()) => f.write_str(&String::from_utf8_lossy(&out)),
            Err(error) => write!(f, "<{error}>"),
        }
    }
}

#[cfg(test)]
mod tests {
    use turms_proto::types::{CallToolParams, CallToolResult};

    use super::*;

    #[test]
    fn a_value_moves_where_the_types_match_and_is_decoded_where_they_do_not() {
        let text = "long enough to live on the heap".to_owned();
        let place = text.as_ptr();
        let params: CallToolParams = Payload::new(CallToolParams::new(text)).take().unwrap();
        assert_eq!(params.name.as_ptr(), place);

        let params: Object = Payload::new(CallToolParams::new("a")).take().unwrap();
        assert_eq!(params.as_str(), r#"{"name":"a"}"#);
        assert!(Payload::new(CallToolParams::new("a")).take::<CallToolResult>().is_err());
    }

    #[test]
    fn a_shared_value_is_cloned_before_it_is_changed() {
        let shared = Arc::new(CallToolResult::from_text("a"));
        let mut payload = Payload::shared(shared.clone());
        assert!(std::ptr::eq(payload.get::<CallToolResult>().unwrap(), &*shared));
        assert!(Arc::ptr_eq(&payload.share::<CallToolResult>().unwrap(), &shared));
        assert!(payload.share::<CallToolParams>().is_none());
        let written = format!("{payload:?}");
        payload.get_mut::<CallToolResult>().unwrap().content.clear();
        assert_ne!(format!("{payload:?}"), written);
        assert_eq!(format!("{:?}", Payload::shared(shared.clone())), written);
        assert_eq!(Payload::shared(shared.clone()).take::<CallToolResult>().unwrap(), *shared);
        assert_eq!(Payload::shared(shared).into_raw().unwrap().as_str(), written);
    }

    #[test]
    fn a_result_is_lowered_whether_it_is_typed_or_json() {
        let mut typed = Payload::new(CallToolResult::from_text("a"));
        let mut raw = Payload::json(Payload::new(CallToolResult::from_text("a")).into_raw().unwrap());
        let mut shared = Payload::shared(Arc::new(CallToolResult::from_text("a")));
        for payload in [&mut typed, &mut raw, &mut shared] {
            payload.lower_result("tools/call", ProtocolVersion::V2025_06_18).unwrap();
            assert_eq!(format!("{payload:?}"), r#"{"content":[{"type":"text","text":"a"}]}"#);
        }
    }

    #[test]
    fn parameters_are_lowered_and_lowered_json_is_unchanged() {
        let json = RawJson::parse(r#"{"name":"a","inputResponses":{},"task":{}}"#).unwrap();
        let mut lowered = Payload::lowered(json.clone());
        lowered.lower_params("tools/call", ProtocolVersion::V2024_11_05).unwrap();
        assert_eq!(lowered.as_raw().unwrap().as_str(), json.as_str());
        let mut params = Payload::json(json);
        params.lower_params("tools/call", ProtocolVersion::V2024_11_05).unwrap();
        assert_eq!(params.into_raw().unwrap().as_str(), r#"{"name":"a"}"#);
    }
}
