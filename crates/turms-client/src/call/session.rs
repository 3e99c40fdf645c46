use turms_proto::method::Method as _;
use turms_proto::types::{
    EmptyParams, Listen, ListenParams, LoggingLevel, Ping, ResourceParams, SetLevel, SetLevelParams, Subscribe,
    SubscriptionFilter, Unsubscribe,
};

use super::{CallError, CallRequest, decode};

/// A call that differs by era, or is for all members of a pool or a group.
#[derive(Clone)]
pub(crate) enum SessionCall {
    Ping,
    SetLogLevel(LoggingLevel),
    Subscribe(String),
    Unsubscribe(String),
    Listen(SubscriptionFilter),
}

impl SessionCall {
    /// The session call that a request is, if it is one.
    pub(crate) fn of(call: &CallRequest) -> Result<Option<Self>, CallError> {
        Ok(Some(match &*call.method {
            Ping::NAME => Self::Ping,
            SetLevel::NAME => Self::SetLogLevel(call.params_as::<SetLevelParams>()?.level),
            Subscribe::NAME => Self::Subscribe(call.params_as::<ResourceParams>()?.uri),
            Unsubscribe::NAME => Self::Unsubscribe(call.params_as::<ResourceParams>()?.uri),
            Listen::NAME => Self::Listen(call.params_as::<ListenParams>()?.notifications),
            _ => return Ok(None),
        }))
    }

    /// The request.
    pub(crate) fn request(self) -> CallRequest {
        match self {
            Self::Ping => CallRequest::new::<Ping>(EmptyParams::new()),
            Self::SetLogLevel(level) => CallRequest::new::<SetLevel>(SetLevelParams::new(level)),
            Self::Subscribe(uri) => CallRequest::new::<Subscribe>(ResourceParams::new(uri)),
            Self::Unsubscribe(uri) => CallRequest::new::<Unsubscribe>(ResourceParams::new(uri)),
            Self::Listen(filter) => CallRequest::typed::<Listen>(ListenParams::new(filter), decode::raw),
        }
    }
}
