use serde::Serialize;
use turms_proto::method::NotificationMethod;
use turms_proto::types::{EmptyResult, LoggingLevel};
use turms_proto::{DecodeError, MethodName, Notification, RawJson};

use crate::call::error::CallErrorKind;
use crate::call::request::object;
use crate::call::{Call, CallError, CallRequest, SessionCall};
use crate::client::Client;

impl Client {
    /// Pings the server: with `ping`, or `server/discover` where there is no `ping`.
    pub fn ping(&self) -> Call<()> {
        Call::new(self, Ok(SessionCall::Ping.request()), |call, output| output.take::<EmptyResult>(call).map(drop))
    }

    /// Sets the minimum level of log messages, also after a reconnection.
    pub fn set_log_level(&self, level: LoggingLevel) -> Call<()> {
        Call::new(self, Ok(SessionCall::SetLogLevel(level).request()), |call, output| {
            output.take::<EmptyResult>(call).map(drop)
        })
    }

    /// Sends a notification that the protocol defines.
    ///
    /// # Errors
    /// When there is no connection.
    pub async fn notify<N: NotificationMethod>(&self, params: &N::Params) -> Result<(), CallError> {
        let notification = Notification::new::<N>(params)
            .map_err(|error| CallError::not_sent(N::NAME, CallErrorKind::Encode(error.to_string())))?;
        self.backend().notify(notification).await
    }

    /// Sends any notification.
    ///
    /// # Errors
    /// When there is no connection.
    pub async fn notify_raw(
        &self,
        method: impl Into<String>,
        params: impl Into<Option<RawJson>>,
    ) -> Result<(), CallError> {
        self.backend().notify(Notification::raw(method.into(), params.into())).await
    }

    /// Sends a request of any method; the parameters are anything that serializes to a JSON object, or `()`. The result is returned
    /// as it came, in the revision of the server.
    pub fn request_raw(&self, method: impl Into<String>, params: impl Serialize) -> Call<RawJson> {
        let method = method.into();
        let params = object(&params, &method);
        let call = params.map(|params| CallRequest::raw(MethodName::from(method), params.unwrap_or_default().into()));
        Call::new(self, call, |call, output| {
            output.payload(call)?.into_raw().map_err(|error| call.invalid(DecodeError::custom(error)))
        })
    }
}
