//! How a client finds out in which dialect to speak (see "Lifecycle" of 2025-11-25 and "Versioning" of 2026-07-28).

use std::time::Duration;

use super::{Dialect, OpenError, Opened, RequestError};
use crate::jsonrpc::{ErrorCode, ErrorObject};
use crate::method::{Method, Notification as _};
use crate::revision::{Translate as _, discover_of_initialize, initialize_of_meta, newest_common};
use crate::types::{
    ClientCapabilities, Discover, DiscoverResult, EmptyParams, Implementation, Initialize, InitializeResult,
    Initialized, Meta, RequestMeta,
};
use crate::{Ability, Object, ProtocolVersion, RawJson};

/// Which revisions a client is willing to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum VersionChoice {
    /// Whatever the server speaks, the newest first.
    #[default]
    Auto,
    /// Only revisions without a handshake.
    Stateless,
    /// Only revisions with a handshake.
    Handshake,
    /// Only this one.
    Only(ProtocolVersion),
}

impl VersionChoice {
    /// The revisions, oldest first.
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

/// Who a client is and how it opens a connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientOptions {
    /// Who it is.
    pub info: Implementation,
    /// What it can do.
    pub capabilities: ClientCapabilities,
    /// Which revisions it is willing to speak.
    pub choice: VersionChoice,
    /// What an earlier connection to this server has found out; nothing is asked then that is known.
    pub known: Option<Dialect>,
    /// Timeout for the answer to `server/discover` before `initialize` is sent too. The first of the two to be answered decides;
    /// silence decides nothing.
    pub probe_timeout: Duration,
    /// Timeout for the answer to `initialize`, and for an answer to `server/discover` after `probe_timeout`.
    pub handshake_timeout: Duration,
}

impl ClientOptions {
    /// With what is usual.
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

    /// Which revisions to speak.
    #[must_use]
    pub fn choice(mut self, choice: VersionChoice) -> Self {
        self.choice = choice;
        self
    }

    /// What is known of the server.
    #[must_use]
    pub fn known(mut self, known: Dialect) -> Self {
        self.known = Some(known);
        self
    }

    /// Timeout for the answer to `server/discover` before `initialize` is sent too.
    #[must_use]
    pub fn probe_timeout(mut self, timeout: Duration) -> Self {
        self.probe_timeout = timeout;
        self
    }
}

/// A request that opens a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// `server/discover`.
    Probe,
    /// `initialize`.
    Handshake,
}

/// The next step of opening a connection.
#[derive(Debug)]
pub(super) enum Step {
    /// Ask this, and come back with the answer.
    Ask { question: Question, params: RawJson, timeout: Duration },
    /// Wait for the answers to what has been asked.
    Wait,
    /// Done, after telling the server so if it wants to know.
    Open { opened: Box<Opened>, tell: Option<&'static str> },
    /// No way.
    Fail(OpenError),
}

/// How a client opens a connection. Behind a trait, so that programs which only serve do not link any of it.
pub(super) trait Open: std::fmt::Debug + Send + Sync {
    /// The first step.
    fn begin(&mut self) -> Step;

    /// The step that follows from an answer.
    fn answered(&mut self, question: Question, outcome: Result<RawJson, RequestError>) -> Step;

    /// The step that follows from a timeout, and the time for which the answer is still awaited.
    fn timed_out(&mut self, question: Question) -> (Option<Duration>, Step);

    /// What every request has to say in its `_meta` by a revision without a handshake.
    fn request_meta(&self, version: ProtocolVersion) -> RequestMeta;
}

impl Question {
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Probe => Discover::NAME,
            Self::Handshake => Initialize::NAME,
        }
    }
}

/// Where a client is on its way to an open connection.
///
/// A server that starts slowly may find both `server/discover` and `initialize` waiting for it. Some servers then speak the
/// revision of the last of them (TypeScript SDK 2.4), some that of the first (Python SDK 2.3), some both (ours). So once
/// `initialize` has been sent, only the answer to a probe sent after it shows that the server still speaks without a handshake.
#[derive(Debug)]
pub(super) struct Opening {
    options: ClientOptions,
    ours: Vec<ProtocolVersion>,
    probe: Probe,
    handshake: Handshake,
    /// The answer to a probe sent before `initialize`, once `initialize` has been sent.
    discovered: Option<DiscoverResult>,
    /// How often `server/discover` may still be repeated because the server wants another version.
    retries: u8,
}

/// The state of `server/discover`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    /// Not asked, or settled.
    Settled,
    /// Asked before `initialize`.
    First,
    /// Asked before `initialize`, and not answered within the probe timeout.
    Slow,
    /// Asked after `initialize`.
    Repeated,
}

/// The state of `initialize`.
#[derive(Debug)]
enum Handshake {
    Unsent,
    /// Sent with this version, and not answered.
    Sent(ProtocolVersion),
    /// Answered while a probe that decides is not.
    Answered(ProtocolVersion, Result<RawJson, RequestError>),
}

impl Open for Opening {
    fn begin(&mut self) -> Step {
        match self.options.known {
            Some(dialect @ Dialect::Stateless(version)) if self.ours.contains(&version) => {
                Step::Open { opened: Box::new(Opened { dialect, server: None }), tell: None }
            }
            Some(Dialect::Handshake(version)) if self.ours.contains(&version) => self.send_initialize_in(version),
            Some(Dialect::Handshake(_)) => self.send_initialize(None),
            _ => match self.newest(Ability::Stateless) {
                Some(version) => self.probe(version),
                None => self.send_initialize(None),
            },
        }
    }

    fn answered(&mut self, question: Question, outcome: Result<RawJson, RequestError>) -> Step {
        match (question, &self.handshake) {
            (Question::Probe, _) => self.probed(outcome),
            (Question::Handshake, Handshake::Sent(version)) => self.shook(*version, outcome),
            (Question::Handshake, _) => Step::Wait,
        }
    }

    fn timed_out(&mut self, question: Question) -> (Option<Duration>, Step) {
        let more = Some(self.options.handshake_timeout);
        match (question, self.probe) {
            (Question::Handshake, _) => (
                None,
                match self.discovered.take() {
                    Some(discovered) => self.choose(discovered),
                    None => Step::Fail(OpenError::TimedOut),
                },
            ),
            // The server may just not have started yet.
            (Question::Probe, Probe::First) => {
                self.probe = Probe::Slow;
                match self.newest(Ability::Handshake) {
                    Some(version) => (more, self.send_initialize_in(version)),
                    None => (more, Step::Wait),
                }
            }
            (Question::Probe, Probe::Slow) if matches!(self.handshake, Handshake::Unsent) => {
                (None, Step::Fail(OpenError::TimedOut))
            }
            (Question::Probe, Probe::Repeated) => (None, self.older(None)),
            (Question::Probe, Probe::Slow | Probe::Settled) => (None, Step::Wait),
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

    fn probe(&mut self, version: ProtocolVersion) -> Step {
        match self.handshake {
            Handshake::Unsent => self.probe_as(Probe::First, version, self.options.probe_timeout),
            _ => self.probe_as(Probe::Repeated, version, self.options.handshake_timeout),
        }
    }

    fn probe_as(&mut self, probe: Probe, version: ProtocolVersion, timeout: Duration) -> Step {
        self.probe = probe;
        let params = EmptyParams::new().meta(Meta::from(&self.request_meta(version)));
        ask::<Discover>(Question::Probe, &params, timeout)
    }

    /// Falls back to the handshake, if we may; `refusal` is what the server said to the probe.
    fn send_initialize(&mut self, refusal: Option<Box<ErrorObject>>) -> Step {
        let Some(version) = self.newest(Ability::Handshake) else {
            return Step::Fail(OpenError::OnlyOlder { ours: self.our_names(), refusal });
        };
        self.send_initialize_in(version)
    }

    fn send_initialize_in(&mut self, version: ProtocolVersion) -> Step {
        self.handshake = Handshake::Sent(version);
        let params = initialize_of_meta(&self.request_meta(version), version);
        ask::<Initialize>(Question::Handshake, &params, self.options.handshake_timeout)
    }

    fn probed(&mut self, outcome: Result<RawJson, RequestError>) -> Step {
        let probe = std::mem::replace(&mut self.probe, Probe::Settled);
        match outcome {
            Ok(result) => match result.decode::<DiscoverResult>() {
                Ok(discovered) => self.discovered(discovered, probe == Probe::Repeated),
                Err(_) => self.older(None),
            },
            Err(RequestError::Peer(error)) if error.code.is_modern() => self.corrected(&error),
            // Old servers answer anything or nothing to a method they do not know.
            Err(RequestError::Peer(error)) => self.older(Some(error)),
            Err(_) => self.older(None),
        }
    }

    /// The server does not speak without a handshake, or does not any more: `initialize` decides.
    fn older(&mut self, refusal: Option<Box<ErrorObject>>) -> Step {
        self.probe = Probe::Settled;
        match std::mem::replace(&mut self.handshake, Handshake::Unsent) {
            Handshake::Unsent => self.send_initialize(refusal),
            Handshake::Answered(version, outcome) => self.shook(version, outcome),
            sent @ Handshake::Sent(_) => {
                self.handshake = sent;
                Step::Wait
            }
        }
    }

    fn discovered(&mut self, discovered: DiscoverResult, repeated: bool) -> Step {
        match (&self.handshake, self.common(&discovered)) {
            (Handshake::Sent(_), Some(version)) if version.has(Ability::Stateless) && !repeated => {
                self.discovered = Some(discovered);
                self.probe(version)
            }
            _ => self.choose(discovered),
        }
    }

    fn common(&self, discovered: &DiscoverResult) -> Option<ProtocolVersion> {
        newest_common(discovered.supported_versions.iter().map(String::as_str), &self.ours)
    }

    fn choose(&mut self, discovered: DiscoverResult) -> Step {
        match self.common(&discovered) {
            Some(version) if version.has(Ability::Stateless) => {
                let dialect = Dialect::Stateless(version);
                Step::Open { opened: Box::new(Opened { dialect, server: Some(discovered) }), tell: None }
            }
            Some(_) if self.has_handshake() => self.older(None),
            Some(version) => self.send_initialize_in(version),
            None => self.no_common(discovered.supported_versions),
        }
    }

    /// Returns `true` if `initialize` has been sent and not refused.
    fn has_handshake(&self) -> bool {
        matches!(self.handshake, Handshake::Sent(_) | Handshake::Answered(_, Ok(_)))
    }

    /// A server of the newer kind wants something else: another version, or just to be asked once more.
    fn corrected(&mut self, error: &ErrorObject) -> Step {
        let supported = error.data.as_ref().and_then(|data| data.member("supported"));
        let theirs: Vec<String> = supported.and_then(|list| list.decode().ok()).unwrap_or_default();
        if error.code != ErrorCode::UNSUPPORTED_VERSION || theirs.is_empty() || self.retries == 0 {
            return match self.newest(Ability::Stateless).filter(|_| self.retries > 0) {
                Some(version) => self.retry(version),
                None => Step::Fail(OpenError::Refused(Box::new(error.clone()))),
            };
        }
        match newest_common(theirs.iter().map(String::as_str), &self.ours) {
            Some(version) if version.has(Ability::Stateless) => self.retry(version),
            Some(_) if self.has_handshake() => self.older(None),
            Some(version) => {
                self.retries -= 1;
                self.send_initialize_in(version)
            }
            None => self.no_common(theirs),
        }
    }

    fn retry(&mut self, version: ProtocolVersion) -> Step {
        self.retries -= 1;
        self.probe(version)
    }

    fn shook(&mut self, proposed: ProtocolVersion, outcome: Result<RawJson, RequestError>) -> Step {
        if self.probe == Probe::Repeated {
            self.handshake = Handshake::Answered(proposed, outcome);
            return Step::Wait;
        }
        let result = match outcome {
            Ok(result) => result,
            Err(RequestError::Peer(error)) => return self.refused(proposed, error),
            Err(RequestError::Invalid(problem)) => return Step::Fail(OpenError::Invalid(problem)),
            Err(error @ RequestError::TooLong { .. }) => return Step::Fail(OpenError::Invalid(error.to_string())),
            Err(RequestError::Closed) => return Step::Fail(OpenError::Closed),
            Err(_) => return Step::Fail(OpenError::TimedOut),
        };
        let answer: InitializeResult = match result.decode() {
            Ok(answer) => answer,
            Err(problem) => return Step::Fail(OpenError::Invalid(problem.to_string())),
        };
        let chosen = answer.protocol_version.parse().ok().filter(|version: &ProtocolVersion| {
            version.has(Ability::Handshake) && (self.ours.contains(version) || *version == proposed)
        });
        match chosen {
            Some(version) => {
                let mut server = discover_of_initialize(answer);
                // The server speaks these, too, on a connection that does not begin with `initialize`.
                server
                    .supported_versions
                    .extend(self.discovered.take().into_iter().flat_map(|it| it.supported_versions));
                let opened = Opened { dialect: Dialect::Handshake(version), server: Some(server) };
                Step::Open { opened: Box::new(opened), tell: Some(Initialized::NAME) }
            }
            None => self.no_common(vec![answer.protocol_version]),
        }
    }

    /// The server has refused `initialize`. It may speak without a handshake, and have been too slow for the probe.
    fn refused(&mut self, proposed: ProtocolVersion, error: Box<ErrorObject>) -> Step {
        let slow = self.probe == Probe::Slow;
        let modern = error.code.is_modern();
        let outcome = Err(RequestError::Peer(error.clone()));
        self.handshake = Handshake::Answered(proposed, outcome);
        match self.newest(Ability::Stateless).filter(|_| slow) {
            _ if modern => self.corrected(&error),
            Some(version) => self.probe_as(Probe::Repeated, version, self.options.probe_timeout),
            None => Step::Fail(OpenError::Refused(error)),
        }
    }

    fn no_common(&self, theirs: Vec<String>) -> Step {
        Step::Fail(OpenError::NoCommonVersion { theirs, ours: self.our_names() })
    }

    fn our_names(&self) -> Vec<String> {
        self.ours.iter().map(ToString::to_string).collect()
    }
}

fn ask<M: Method>(question: Question, params: &M::Params, timeout: Duration) -> Step {
    let params = RawJson::encode(params).unwrap_or_else(|_| RawJson::from(Object::new()));
    Step::Ask { question, params, timeout }
}
