//! Authorization of HTTP requests, before their bodies are read.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE,
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};
use http::request::Parts;
use http::{Extensions, Method, Response, StatusCode};
use turms_core::{BoxFuture, Principal};
use turms_proto::jsonrpc::encode;
use turms_proto::{ErrorCode, ErrorObject};

use super::http1::RawHead;

/// Checks the credentials of HTTP requests, for [`HttpService::guard`](crate::HttpService::guard) and the WebSocket service.
///
/// A guard runs for every request, before its body is read. The principal that it returns is the caller of every call in the request:
/// handlers extract it, and sessions, tasks and request state belong to it. It replaces a `Principal` in the extensions of the
/// request.
///
/// ```
/// use http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
/// use http::StatusCode;
/// # mod turms { pub use turms_core::{self as layer, Principal}; pub use turms_http as http; }
/// use turms::Principal;
/// use turms::http::{Guard, GuardRejection, GuardRequest};
/// use turms::layer::BoxFuture;
///
/// struct OneToken;
///
/// impl Guard for OneToken {
///     fn check<'a>(&'a self, request: &'a GuardRequest<'a>) -> BoxFuture<'a, Result<Principal, GuardRejection>> {
///         Box::pin(async move {
///             let mut values = request.header_values(&AUTHORIZATION);
///             if (values.next(), values.next()) == (Some(b"Bearer secret".as_slice()), None) {
///                 return Ok(Principal::new("ann").with_scopes(["notes:read"]));
///             }
///             let rejection = GuardRejection::new(StatusCode::UNAUTHORIZED, "a token is required");
///             Err(rejection.header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")))
///         })
///     }
///
///     fn insufficient_scope(&self, _: Option<&Principal>, scopes: &[String]) -> Option<HeaderValue> {
///         let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{}\"", scopes.join(" "));
///         HeaderValue::try_from(challenge).ok()
///     }
/// }
/// ```
#[doc(alias = "authorization")]
#[doc(alias = "authentication")]
#[doc(alias = "bearer")]
pub trait Guard: Send + Sync + 'static {
    /// Checks a request without waiting, if that is possible, such as by a cache of verified tokens. Default: `None`; then
    /// [`Guard::check`] is called.
    fn check_cached(&self, request: &GuardRequest<'_>) -> Option<Result<Principal, GuardRejection>> {
        let _ = request;
        None
    }

    /// Checks a request. The client waits for the result, so a guard needs timeouts for what it waits for.
    fn check<'a>(&'a self, request: &'a GuardRequest<'a>) -> BoxFuture<'a, Result<Principal, GuardRejection>>;

    /// Returns the `WWW-Authenticate` header of the response to a call that needs more scopes. `scopes` are all that the call needs.
    fn insufficient_scope(&self, principal: Option<&Principal>, scopes: &[String]) -> Option<HeaderValue>;

    /// Returns the public document at a path, such as protected-resource metadata. It is served without a check, to pages of every
    /// allowed origin. Default: none.
    fn document(&self, path: &str) -> Option<GuardDocument> {
        let _ = path;
        None
    }

    /// Returns `true` if streams end when the token of their request expires. Calls that have begun may finish. Default: `true`.
    fn ends_streams_on_expiry(&self) -> bool {
        true
    }
}

impl<G: Guard + ?Sized> Guard for Arc<G> {
    fn check_cached(&self, request: &GuardRequest<'_>) -> Option<Result<Principal, GuardRejection>> {
        (**self).check_cached(request)
    }

    fn check<'a>(&'a self, request: &'a GuardRequest<'a>) -> BoxFuture<'a, Result<Principal, GuardRejection>> {
        (**self).check(request)
    }

    fn insufficient_scope(&self, principal: Option<&Principal>, scopes: &[String]) -> Option<HeaderValue> {
        (**self).insufficient_scope(principal, scopes)
    }

    fn document(&self, path: &str) -> Option<GuardDocument> {
        (**self).document(path)
    }

    fn ends_streams_on_expiry(&self) -> bool {
        (**self).ends_streams_on_expiry()
    }
}

/// The head of a request, for a [`Guard`].
pub struct GuardRequest<'a> {
    method: &'a Method,
    path: Cow<'a, str>,
    query: Option<Cow<'a, str>>,
    headers: HeaderSource<'a>,
    extensions: Option<&'a Extensions>,
}

/// The headers of a request.
#[derive(Clone, Copy)]
pub(super) enum HeaderSource<'a> {
    Map(&'a HeaderMap),
    /// Of the HTTP/1.1 implementation of this crate, which builds no map.
    Raw(&'a RawHead),
}

impl<'a> GuardRequest<'a> {
    /// Creates a request from the type of the `http` crate, for guards in middleware.
    #[must_use]
    pub fn new(parts: &'a Parts) -> Self {
        Self {
            method: &parts.method,
            path: parts.uri.path().into(),
            query: parts.uri.query().map(Into::into),
            headers: HeaderSource::Map(&parts.headers),
            extensions: Some(&parts.extensions),
        }
    }

    pub(super) fn with(
        method: &'a Method,
        (path, query): (Cow<'a, str>, Option<Cow<'a, str>>),
        headers: HeaderSource<'a>,
        extensions: Option<&'a Extensions>,
    ) -> Self {
        Self { method, path, query, headers, extensions }
    }

    /// Returns the HTTP method.
    #[must_use]
    pub fn method(&self) -> &Method {
        self.method
    }

    /// Returns the path of the request target. In an application, it is the path below the one that the service is mounted at.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the query of the request target.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    /// Returns the values of all headers with a name, in order.
    pub fn header_values(&self, name: &HeaderName) -> impl Iterator<Item = &[u8]> {
        let (map, raw) = match self.headers {
            HeaderSource::Map(map) => (Some(map.get_all(name).iter().map(HeaderValue::as_bytes)), None),
            HeaderSource::Raw(head) => (None, Some(head.values(name.clone()))),
        };
        map.into_iter().flatten().chain(raw.into_iter().flatten())
    }

    /// Returns a value that middleware of the application has attached to the request.
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.extensions?.get()
    }
}

impl fmt::Debug for GuardRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers contain tokens, and so may a query.
        f.debug_struct("GuardRequest").field("method", self.method).field("path", &self.path).finish_non_exhaustive()
    }
}

/// The response to a request that a [`Guard`] rejects. Its body is a JSON-RPC error with the message.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct GuardRejection {
    /// The status: 401 without a valid token, 403 without the scopes that every request needs, 400 for a malformed request, 503 if the
    /// token cannot be checked at the moment.
    pub status: StatusCode,
    /// The headers, such as `WWW-Authenticate`, `DPoP-Nonce` and `Retry-After`.
    pub headers: HeaderMap,
    /// The reason, for the client. It must not contain the token.
    pub message: String,
}

turms_core::__internal::into_error! {
    Other: GuardRejection,
}

impl GuardRejection {
    /// Creates a rejection without headers.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, headers: HeaderMap::new(), message: message.into() }
    }

    /// Adds a header, in addition to others of that name.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    /// Converts to the response.
    #[must_use]
    pub fn into_response(self) -> Response<Bytes> {
        let Self { status, headers, message } = self;
        tracing::debug!(status = status.as_u16(), reason = message, "a request is rejected by the guard");
        let error = match status {
            StatusCode::SERVICE_UNAVAILABLE => ErrorObject::new(ErrorCode::UNAVAILABLE, message),
            status if status.is_server_error() => ErrorObject::internal(message),
            _ => ErrorObject::invalid_request(message),
        };
        let mut body = Vec::new();
        encode::failure_with_null_id(&mut body, &error);
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// A public document of a [`Guard`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GuardDocument {
    /// The media type.
    pub content_type: HeaderValue,
    /// The content.
    pub body: Bytes,
    /// The value of `Cache-Control`.
    pub cache_control: Option<HeaderValue>,
}

impl GuardDocument {
    /// Creates a JSON document that clients may cache for an hour.
    pub fn json(body: impl Into<Bytes>) -> Self {
        Self {
            content_type: HeaderValue::from_static("application/json"),
            body: body.into(),
            cache_control: Some(HeaderValue::from_static("public, max-age=3600")),
        }
    }

    /// Sets the value of `Cache-Control`. Default: `public, max-age=3600`.
    #[must_use]
    pub fn cache_control(mut self, value: impl Into<Option<HeaderValue>>) -> Self {
        self.cache_control = value.into();
        self
    }

    /// Converts to the response to a request with this method. Pages of every origin may read it.
    #[must_use]
    pub fn into_response(self, method: &Method) -> Response<Bytes> {
        const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");
        let mut response = Response::new(Bytes::new());
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        match *method {
            Method::GET | Method::HEAD => {
                headers.insert(CONTENT_TYPE, self.content_type);
                headers.extend(self.cache_control.map(|value| (CACHE_CONTROL, value)));
                *response.body_mut() = self.body;
            }
            Method::OPTIONS => {
                headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
                headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*"));
                headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
                *response.status_mut() = StatusCode::NO_CONTENT;
            }
            _ => {
                headers.insert(ALLOW, METHODS);
                *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            }
        }
        response
    }
}

/// The guard of a service, if it has one.
#[derive(Clone, Default)]
pub struct SharedGuard(Option<Arc<dyn Guard>>);

impl SharedGuard {
    /// Shares a guard.
    pub fn new(guard: impl Guard) -> Self {
        Self(Some(Arc::new(guard)))
    }

    /// Returns `true` if there is a guard.
    #[must_use]
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Checks a request. Returns `None` if there is no guard. Allocates nothing and does not wait if the guard knows the result.
    ///
    /// # Errors
    /// If the guard rejects the request.
    pub async fn check(&self, request: &GuardRequest<'_>) -> Result<Option<Principal>, GuardRejection> {
        let Some(guard) = &self.0 else { return Ok(None) };
        match guard.check_cached(request) {
            Some(checked) => checked.map(Some),
            None => guard.check(request).await.map(Some),
        }
    }

    /// Returns the response to a request for a public document.
    #[must_use]
    pub fn document(&self, method: &Method, path: &str) -> Option<Response<Bytes>> {
        let guard = self.0.as_ref()?;
        let is_read = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        Some(guard.document(path).filter(|_| is_read)?.into_response(method))
    }

    /// Returns the `WWW-Authenticate` header of the response to a call that needs more scopes.
    #[must_use]
    pub fn insufficient_scope(&self, principal: Option<&Principal>, scopes: &[String]) -> Option<HeaderValue> {
        self.0.as_ref()?.insufficient_scope(principal, scopes)
    }

    /// Returns the time at which the streams of a principal end.
    #[must_use]
    pub fn stream_end(&self, principal: Option<&Principal>) -> Option<SystemTime> {
        let is_wanted = self.0.as_ref().is_none_or(|guard| guard.ends_streams_on_expiry());
        principal?.expires_at().filter(|_| is_wanted)
    }
}

impl fmt::Debug for SharedGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_some() { "SharedGuard" } else { "None" })
    }
}

/// Waits until a time of day. A change of the system clock meanwhile is not noticed.
pub async fn sleep_until(time: SystemTime) {
    #[expect(clippy::disallowed_methods, reason = "tokens expire at a time of day")]
    let left = time.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO);
    tokio::time::sleep(left).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_has_status_headers_and_a_json_rpc_error() {
        for (status, code) in [(401, -32600), (403, -32600), (503, -32053), (500, -32603)] {
            let rejection = GuardRejection::new(StatusCode::from_u16(status).unwrap(), "no")
                .header(http::header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
                .header(http::header::WWW_AUTHENTICATE, HeaderValue::from_static("DPoP"));
            let response = rejection.into_response();
            assert_eq!(response.status().as_u16(), status);
            assert_eq!(response.headers().get_all("www-authenticate").iter().count(), 2);
            let error = format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":{code},"message":"no"}}}}"#);
            assert_eq!(response.body(), error.as_bytes());
        }
    }

    #[test]
    fn debug_output_has_no_header_values() {
        let (parts, ()) =
            http::Request::get("/mcp?token=secret").header("authorization", "secret").body(()).unwrap().into_parts();
        let request = GuardRequest::new(&parts);
        assert_eq!((request.path(), request.query()), ("/mcp", Some("token=secret")));
        assert_eq!(request.header_values(&http::header::AUTHORIZATION).collect::<Vec<_>>(), [b"secret"]);
        assert!(!format!("{request:?}").contains("secret"));
    }

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, when};

        struct Open;
        impl Guard for Open {
            fn check<'a>(&'a self, _: &'a GuardRequest<'a>) -> BoxFuture<'a, Result<Principal, GuardRejection>> {
                Box::pin(async { Ok(Principal::new("ann")) })
            }
            fn insufficient_scope(&self, _: Option<&Principal>, _: &[String]) -> Option<HeaderValue> {
                None
            }
        }
        let head = http::Request::new(()).into_parts().0;
        let cached = Open.check_cached(&GuardRequest::new(&head));
        let document = GuardDocument::json("{}").cache_control.unwrap();
        let code = [
            ("Guard::check_cached", when(cached.is_none(), "`None`")),
            ("Guard::document", when(Open.document("/").is_none(), "none")),
            ("Guard::ends_streams_on_expiry", when(Open.ends_streams_on_expiry(), "`true`")),
            ("GuardDocument::cache_control", format!("`{}`", document.to_str().unwrap())),
        ];
        assert_documented(include_str!("guard.rs"), &code);
    }
}
