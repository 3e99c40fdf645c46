//! Version discovery of a client (see "Lifecycle" of 2025-11-25 and "Versioning" of 2026-07-28).

use std::time::Duration;

use super::{Dialect, Negotiated, OpenError, RequestError};
use crate::jsonrpc::{ErrorCode, ErrorObject};
use crate::method::{Method, NotificationMethod as _};
use crate::revision::{Translate as _, discover_of_initialize, initialize_of_meta, newest_common};
use crate::types::{
    ClientCapabilities, Discover, DiscoverResult, EmptyParams, Implementation, Initialize, InitializeResult,
    InitializedNotification, Meta, RequestMeta,
};
use crate::{Ability, Object, ProtocolVersion, RawJson};

/// Revisions that a client may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum VersionChoice {
    /// The newest revision that the server supports.
    #[default]
    Auto,
    /// Only revisions without a handshake.
    Stateless,
    /// Only revisions with a handshake.
    Handshake,
    /// Only this revision.
    Only(ProtocolVersion),
}

impl VersionChoice {
    /// Returns the revisions, oldest first.
    #[must_use]
    pub fn versions(self) -> Vec<ProtocolVersion> {
        let wanted = |version: &ProtocolVersion| match self {
            Self::Auto => true,
            Self::Stateless => version.has(Ability::Stateless),
            Self::Handshake => version.has(Ability::Handshake),
            Self::Only(only) => *version == only,
        };
        ProtocolVersion::ALL.into_iter().filter(wanted).collect()
    }
}

/// Options for the client side of a connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientOptions {
    /// Name and version of the client.
    pub info: Implementation,
    /// Capabilities of the client.
    pub capabilities: ClientCapabilities,
    /// Revisions that the client may use. Default: [`VersionChoice::Auto`].
    pub choice: VersionChoice,
    /// Dialect of an earlier connection to this server, which saves the discovery. Default: none.
    pub known: Option<Dialect>,
    /// Timeout for the response to `server/discover` before `initialize` is sent too. The first of the two responses
    /// decides the dialect. Default: 3 s.
    pub probe_timeout: Duration,
    /// Timeout for the response to `initialize`, and for a response to `server/discover` after `probe_timeout`.
    /// Default: 30 s.
    pub handshake_timeout: Duration,
}

impl ClientOptions {
    /// Creates options with the defaults.
    #[must_use]
    pub fn new(info: Implementation, capabilities: ClientCapabilities) -> Self {
        Self {
            info,
            capabilities,
            choice: VersionChoice::Auto,
            known: None,
            probe_timeout: Duration::from_secs(3),
            handshake_timeout: Duration::from_secs(30),
        }
    }

    /// Sets the revisions that the client may use.
    #[must_use]
    pub fn choice(mut self, choice: VersionChoice) -> Self {
        self.choice = choice;
        self
    }

    /// Sets the dialect of an earlier connection.
    #[must_use]
    pub fn known(mut self, known: Dialect) -> Self {
        self.known = Some(known);
        self
    }

    /// Sets the timeout for `server/discover`.
    #[must_use]
    pub fn probe_timeout(mut self, timeout: Duration) -> Self {
        self.probe_timeout = timeout;
        self
    }
}

/// A request that opens a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpeningRequest {
    /// `server/discover`.
    Probe,
    /// `initialize`.
    Handshake,
}

/// Next step of opening a connection.
#[derive(Debug)]
pub(super) enum OpeningStep {
    /// Send a request.
    Send { kind: OpeningRequest, params: RawJson, timeout: Duration },
    /// Wait for responses to earlier requests.
    Wait,
    /// The connection is open; send the notification, if there is one.
    Open { opened: Box<Negotiated>, notification: Option<&'static str> },
    /// The connection failed to open.
    Fail(OpenError),
}

/// Client side of opening a connection. It is a trait, so that programs which only serve do not link the
/// implementation.
pub(super) trait Open: std::fmt::Debug + Send + Sync {
    /// Returns the first step.
    fn begin(&mut self) -> OpeningStep;

    /// Returns the step after a response.
    fn on_response(&mut self, kind: OpeningRequest, outcome: Result<RawJson, RequestError>) -> OpeningStep;

    /// Returns the additional time to wait for the response after a timeout, and the next step.
    fn on_timeout(&mut self, kind: OpeningRequest) -> (Option<Duration>, OpeningStep);

    /// Returns the metadata that a stateless revision requires in every request.
    fn request_meta(&self, version: ProtocolVersion) -> RequestMeta;
}

impl OpeningRequest {
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Probe => Discover::NAME,
            Self::Handshake => Initialize::NAME,
        }
    }
}

/// State of opening a connection.
///
/// A server that starts slowly may receive both `server/discover` and `initialize`. Some servers then use the revision
/// of the last request (TypeScript SDK 2.4), some that of the first (Python SDK 2.3), some support both (Turms). So
/// after `initialize` is sent, only the response to a later probe shows that the server still supports the stateless
/// revision.
#[derive(Debug)]
pub(super) struct Opening {
    options: ClientOptions,
    ours: Vec<ProtocolVersion>,
    probe: Probe,
    handshake: Handshake,
    /// Response to a probe sent before `initialize`, once `initialize` has been sent.
    discovered: Option<DiscoverResult>,
    /// Remaining number of retries of `server/discover` with another version.
    retries: u8,
}

/// State of `server/discover`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    /// Not sent, or completed.
    Settled,
    /// Sent before `initialize`.
    First,
    /// Sent before `initialize`, without a response within the probe timeout.
    Slow,
    /// Sent after `initialize`.
    Repeated,
}

/// State of `initialize`.
#[derive(Debug)]
enum Handshake {
    Unsent,
    /// Sent with this version, without a response.
    Sent(ProtocolVersion),
    /// Completed, while a probe that decides the dialect is pending.
    Answered(ProtocolVersion, Result<RawJson, RequestError>),
}

impl Open for Opening {
    fn begin(&mut self) -> OpeningStep {
        match self.options.known {
            Some(dialect @ Dialect::Stateless(version)) if self.ours.contains(&version) => {
                OpeningStep::Open { opened: Box::new(Negotiated { dialect, server: None }), notification: None }
            }
            Some(Dialect::Handshake(version)) if self.ours.contains(&version) => self.send_initialize_in(version),
            Some(Dialect::Handshake(_)) => self.send_initialize(None),
            _ => match self.newest(Ability::Stateless) {
                Some(version) => self.probe(version),
                None => self.send_initialize(None),
            },
        }
    }

    fn on_response(&mut self, kind: OpeningRequest, outcome: Result<RawJson, RequestError>) -> OpeningStep {
        match (kind, &self.handshake) {
            (OpeningRequest::Probe, _) => self.on_probe_response(outcome),
            (OpeningRequest::Handshake, Handshake::Sent(version)) => self.on_initialize_response(*version, outcome),
            (OpeningRequest::Handshake, _) => OpeningStep::Wait,
        }
    }

    fn on_timeout(&mut self, kind: OpeningRequest) -> (Option<Duration>, OpeningStep) {
        let more = Some(self.options.handshake_timeout);
        match (kind, self.probe) {
            (OpeningRequest::Handshake, _) => (
                None,
                match self.discovered.take() {
                    Some(discovered) => self.choose_version(discovered),
                    None => OpeningStep::Fail(OpenError::TimedOut),
                },
            ),
            // The server may still be starting.
            (OpeningRequest::Probe, Probe::First) => {
                self.probe = Probe::Slow;
                match self.newest(Ability::Handshake) {
                    Some(version) => (more, self.send_initialize_in(version)),
                    None => (more, OpeningStep::Wait),
                }
            }
            (OpeningRequest::Probe, Probe::Slow) if matches!(self.handshake, Handshake::Unsent) => {
                (None, OpeningStep::Fail(OpenError::TimedOut))
            }
            (OpeningRequest::Probe, Probe::Repeated) => (None, self.continue_with_handshake(None)),
            (OpeningRequest::Probe, Probe::Slow | Probe::Settled) => (None, OpeningStep::Wait),
        }
    }

    fn request_meta(&self, version: ProtocolVersion) -> RequestMeta {
        let mut capabilities = self.options.capabilities.clone();
        capabilities.lower(version);
        RequestMeta::new()
            .protocol_version(version.as_str())
            .client_capabilities(capabilities)
            .client_info(self.options.info.clone())
    }
}

impl Opening {
    pub(super) fn new(options: ClientOptions) -> Self {
        let ours = options.choice.versions();
        let (probe, handshake) = (Probe::Settled, Handshake::Unsent);
        Self { options, ours, probe, handshake, discovered: None, retries: 2 }
    }

    fn newest(&self, ability: Ability) -> Option<ProtocolVersion> {
        self.ours.iter().rev().copied().find(|version| version.has(ability))
    }

    fn probe(&mut self, version: ProtocolVersion) -> OpeningStep {
        match self.handshake {
            Handshake::Unsent => self.probe_as(Probe::First, version, self.options.probe_timeout),
            _ => self.probe_as(Probe::Repeated, version, self.options.handshake_timeout),
        }
    }

    fn probe_as(&mut self, probe: Probe, version: ProtocolVersion, timeout: Duration) -> OpeningStep {
        self.probe = probe;
        let params = EmptyParams::new().meta(Meta::from(&self.request_meta(version)));
        send::<Discover>(OpeningRequest::Probe, &params, timeout)
    }

    /// Falls back to the handshake, if the options allow it. `refusal` is the server's error response to the probe.
    fn send_initialize(&mut self, refusal: Option<Box<ErrorObject>>) -> OpeningStep {
        let Some(version) = self.newest(Ability::Handshake) else {
            return OpeningStep::Fail(OpenError::OnlyOlder { ours: self.our_versions(), refusal });
        };
        self.send_initialize_in(version)
    }

    fn send_initialize_in(&mut self, version: ProtocolVersion) -> OpeningStep {
        self.handshake = Handshake::Sent(version);
        let params = initialize_of_meta(&self.request_meta(version), version);
        send::<Initialize>(OpeningRequest::Handshake, &params, self.options.handshake_timeout)
    }

    fn on_probe_response(&mut self, outcome: Result<RawJson, RequestError>) -> OpeningStep {
        let probe = std::mem::replace(&mut self.probe, Probe::Settled);
        match outcome {
            Ok(result) => match result.decode::<DiscoverResult>() {
                Ok(discovered) => self.on_discovered(discovered, probe == Probe::Repeated),
                Err(_) => self.continue_with_handshake(None),
            },
            Err(RequestError::Peer(error)) if error.code.is_modern() => self.on_modern_error(&error),
            // Older servers may send any error, or no response, for an unknown method.
            Err(RequestError::Peer(error)) => self.continue_with_handshake(Some(error)),
            Err(_) => self.continue_with_handshake(None),
        }
    }

    /// Continues with the handshake, because the server does not support stateless revisions.
    fn continue_with_handshake(&mut self, refusal: Option<Box<ErrorObject>>) -> OpeningStep {
        self.probe = Probe::Settled;
        match std::mem::replace(&mut self.handshake, Handshake::Unsent) {
            Handshake::Unsent => self.send_initialize(refusal),
            Handshake::Answered(version, outcome) => self.on_initialize_response(version, outcome),
            sent @ Handshake::Sent(_) => {
                self.handshake = sent;
                OpeningStep::Wait
            }
        }
    }

    fn on_discovered(&mut self, discovered: DiscoverResult, repeated: bool) -> OpeningStep {
        match (&self.handshake, self.common_version(&discovered)) {
            (Handshake::Sent(_), Some(version)) if version.has(Ability::Stateless) && !repeated => {
                self.discovered = Some(discovered);
                self.probe(version)
            }
            _ => self.choose_version(discovered),
        }
    }

    fn common_version(&self, discovered: &DiscoverResult) -> Option<ProtocolVersion> {
        newest_common(discovered.supported_versions.iter().map(String::as_str), &self.ours)
    }

    fn choose_version(&mut self, discovered: DiscoverResult) -> OpeningStep {
        match self.common_version(&discovered) {
            Some(version) if version.has(Ability::Stateless) => {
                let dialect = Dialect::Stateless(version);
                OpeningStep::Open {
                    opened: Box::new(Negotiated { dialect, server: Some(discovered) }),
                    notification: None,
                }
            }
            Some(_) if self.has_handshake() => self.continue_with_handshake(None),
            Some(version) => self.send_initialize_in(version),
            None => self.no_common_version(discovered.supported_versions),
        }
    }

    /// Returns `true` if `initialize` was sent and not rejected.
    fn has_handshake(&self) -> bool {
        matches!(self.handshake, Handshake::Sent(_) | Handshake::Answered(_, Ok(_)))
    }

    /// Handles an error that only newer servers send: retries with another version, or once more with the same.
    fn on_modern_error(&mut self, error: &ErrorObject) -> OpeningStep {
        let supported = error.data.as_ref().and_then(|data| data.member("supported"));
        let theirs: Vec<String> = supported.and_then(|list| list.decode().ok()).unwrap_or_default();
        if error.code != ErrorCode::UNSUPPORTED_VERSION || theirs.is_empty() || self.retries == 0 {
            return match self.newest(Ability::Stateless).filter(|_| self.retries > 0) {
                Some(version) => self.retry(version),
                None => OpeningStep::Fail(OpenError::Refused(Box::new(error.clone()))),
            };
        }
        match newest_common(theirs.iter().map(String::as_str), &self.ours) {
            Some(version) if version.has(Ability::Stateless) => self.retry(version),
            Some(_) if self.has_handshake() => self.continue_with_handshake(None),
            Some(version) => {
                self.retries -= 1;
                self.send_initialize_in(version)
            }
            None => self.no_common_version(theirs),
        }
    }

    fn retry(&mut self, version: ProtocolVersion) -> OpeningStep {
        self.retries -= 1;
        self.probe(version)
    }

    fn on_initialize_response(
        &mut self,
        proposed: ProtocolVersion,
        outcome: Result<RawJson, RequestError>,
    ) -> OpeningStep {
        if self.probe == Probe::Repeated {
            self.handshake = Handshake::Answered(proposed, outcome);
            return OpeningStep::Wait;
        }
        let result = match outcome {
            Ok(result) => result,
            Err(RequestError::Peer(error)) => return self.on_initialize_error(proposed, error),
            Err(RequestError::Invalid(problem)) => return OpeningStep::Fail(OpenError::Invalid(problem)),
            Err(error @ RequestError::TooLong { .. }) => {
                return OpeningStep::Fail(OpenError::Invalid(error.to_string()));
            }
            Err(RequestError::Closed) => return OpeningStep::Fail(OpenError::Closed),
            Err(_) => return OpeningStep::Fail(OpenError::TimedOut),
        };
        let answer: InitializeResult = match result.decode() {
            Ok(answer) => answer,
            Err(problem) => return OpeningStep::Fail(OpenError::Invalid(problem.to_string())),
        };
        let chosen = answer.protocol_version.parse().ok().filter(|version: &ProtocolVersion| {
            version.has(Ability::Handshake) && (self.ours.contains(version) || *version == proposed)
        });
        match chosen {
            Some(version) => {
                let mut server = discover_of_initialize(answer);
                // The server also supports these versions on connections that do not start with `initialize`.
                server
                    .supported_versions
                    .extend(self.discovered.take().into_iter().flat_map(|it| it.supported_versions));
                let opened = Negotiated { dialect: Dialect::Handshake(version), server: Some(server) };
                OpeningStep::Open { opened: Box::new(opened), notification: Some(InitializedNotification::NAME) }
            }
            None => self.no_common_version(vec![answer.protocol_version]),
        }
    }

    /// Handles an error response to `initialize`. The server may be stateless and too slow for the first probe.
    fn on_initialize_error(&mut self, proposed: ProtocolVersion, error: Box<ErrorObject>) -> OpeningStep {
        let slow = self.probe == Probe::Slow;
        let modern = error.code.is_modern();
        let outcome = Err(RequestError::Peer(error.clone()));
        self.handshake = Handshake::Answered(proposed, outcome);
        match self.newest(Ability::Stateless).filter(|_| slow) {
            _ if modern => self.on_modern_error(&error),
            Some(version) => self.probe_as(Probe::Repeated, version, self.options.probe_timeout),
            None => OpeningStep::Fail(OpenError::Refused(error)),
        }
    }

    fn no_common_version(&self, theirs: Vec<String>) -> OpeningStep {
        OpeningStep::Fail(OpenError::NoCommonVersion { theirs, ours: self.our_versions() })
    }

    fn our_versions(&self) -> Vec<String> {
        self.ours.iter().map(ToString::to_string).collect()
    }
}

fn send<M: Method>(kind: OpeningRequest, params: &M::Params, timeout: Duration) -> OpeningStep {
    let params = RawJson::encode(params).unwrap_or_else(|_| RawJson::from(Object::new()));
    OpeningStep::Send { kind, params, timeout }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, time, when};

        let it = ClientOptions::new(Implementation::new("client", "1"), ClientCapabilities::new());
        let code = [
            ("ClientOptions::choice", when(matches!(it.choice, VersionChoice::Auto), "[`VersionChoice::Auto`]")),
            ("ClientOptions::known", when(it.known.is_none(), "none")),
            ("ClientOptions::probe_timeout", time(it.probe_timeout)),
            ("ClientOptions::handshake_timeout", time(it.handshake_timeout)),
        ];
        assert_documented(include_str!("opening.rs"), &code);
    }
}
