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
    /// How long silence may last before a server counts as one that does not know `server/discover`.
    pub probe_timeout: Duration,
    /// How long to wait for the answer to `initialize`.
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

    /// How long silence may last.
    #[must_use]
    pub fn probe_timeout(mut self, timeout: Duration) -> Self {
        self.probe_timeout = timeout;
        self
    }
}

/// The next step of opening a connection.
#[derive(Debug)]
pub(super) enum Step {
    /// Ask this, and come back with the answer.
    Ask { method: &'static str, params: RawJson, timeout: Duration },
    /// Done, after telling the server so if it wants to know.
    Open { opened: Box<Opened>, tell: Option<&'static str> },
    /// No way.
    Fail(OpenError),
}

/// How a client opens a connection. Behind a trait, so that programs which only serve do not link any of it.
pub(super) trait Open: std::fmt::Debug + Send + Sync {
    /// The first step.
    fn begin(&mut self) -> Step;

    /// Goes on with what came of the last question.
    fn answered(&mut self, outcome: Result<RawJson, RequestError>) -> Step;

    /// What every request has to say in its `_meta` by a revision without a handshake.
    fn request_meta(&self, version: ProtocolVersion) -> RequestMeta;
}

/// Where a client is on its way to an open connection.
#[derive(Debug)]
pub(super) struct Opening {
    options: ClientOptions,
    ours: Vec<ProtocolVersion>,
    stage: Stage,
    /// How often `server/discover` may still be repeated because the server wants another version.
    retries: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Probing,
    Shaking(ProtocolVersion),
}

impl Open for Opening {
    fn begin(&mut self) -> Step {
        match self.options.known {
            Some(dialect @ Dialect::Stateless(version)) if self.ours.contains(&version) => {
                Step::Open { opened: Box::new(Opened { dialect, server: None }), tell: None }
            }
            Some(Dialect::Handshake(version)) if self.ours.contains(&version) => self.shake_hands_in(version),
            Some(Dialect::Handshake(_)) => self.shake_hands(None),
            _ => match self.newest(Ability::Stateless) {
                Some(version) => self.probe(version),
                None => self.shake_hands(None),
            },
        }
    }

    fn answered(&mut self, outcome: Result<RawJson, RequestError>) -> Step {
        match self.stage {
            Stage::Probing => self.probed(outcome),
            Stage::Shaking(version) => self.shook(version, outcome),
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
        Self { options, ours, stage: Stage::Probing, retries: 2 }
    }

    fn newest(&self, ability: Ability) -> Option<ProtocolVersion> {
        self.ours.iter().rev().copied().find(|version| version.has(ability))
    }

    fn probe(&mut self, version: ProtocolVersion) -> Step {
        self.stage = Stage::Probing;
        let params = EmptyParams::new().meta(Meta::from(&self.request_meta(version)));
        self.ask::<Discover>(&params, self.options.probe_timeout)
    }

    /// Falls back to the handshake, if we may; `refusal` is what the server said to the probe.
    fn shake_hands(&mut self, refusal: Option<Box<ErrorObject>>) -> Step {
        let Some(version) = self.newest(Ability::Handshake) else {
            return Step::Fail(OpenError::OnlyOlder { ours: self.our_names(), refusal });
        };
        self.shake_hands_in(version)
    }

    fn shake_hands_in(&mut self, version: ProtocolVersion) -> Step {
        self.stage = Stage::Shaking(version);
        let params = initialize_of_meta(&self.request_meta(version), version);
        self.ask::<Initialize>(&params, self.options.handshake_timeout)
    }

    fn probed(&mut self, outcome: Result<RawJson, RequestError>) -> Step {
        match outcome {
            Ok(result) => match result.decode::<DiscoverResult>() {
                Ok(discovered) => self.discovered(discovered),
                Err(_) => self.shake_hands(None),
            },
            Err(RequestError::Peer(error)) if error.code.is_modern() => self.corrected(&error),
            // Old servers answer anything or nothing to a method they do not know.
            Err(RequestError::Peer(error)) => self.shake_hands(Some(error)),
            Err(_) => self.shake_hands(None),
        }
    }

    fn discovered(&mut self, discovered: DiscoverResult) -> Step {
        let theirs = discovered.supported_versions.iter().map(String::as_str);
        match newest_common(theirs, &self.ours) {
            Some(version) if version.has(Ability::Stateless) => {
                let dialect = Dialect::Stateless(version);
                Step::Open { opened: Box::new(Opened { dialect, server: Some(discovered) }), tell: None }
            }
            Some(version) => self.shake_hands_in(version),
            None => self.no_common(discovered.supported_versions),
        }
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
            Some(version) => {
                self.retries -= 1;
                self.shake_hands_in(version)
            }
            None => self.no_common(theirs),
        }
    }

    fn retry(&mut self, version: ProtocolVersion) -> Step {
        self.retries -= 1;
        self.probe(version)
    }

    fn shook(&mut self, proposed: ProtocolVersion, outcome: Result<RawJson, RequestError>) -> Step {
        let result = match outcome {
            Ok(result) => result,
            // A server that was too slow to answer the probe, or was taken for an older one.
            Err(RequestError::Peer(error)) if error.code.is_modern() => return self.corrected(&error),
            Err(RequestError::Peer(error)) => return Step::Fail(OpenError::Refused(error)),
            Err(RequestError::Invalid(problem)) => return Step::Fail(OpenError::Invalid(problem)),
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
                let opened =
                    Opened { dialect: Dialect::Handshake(version), server: Some(discover_of_initialize(answer)) };
                Step::Open { opened: Box::new(opened), tell: Some(Initialized::NAME) }
            }
            None => self.no_common(vec![answer.protocol_version]),
        }
    }

    fn ask<M: Method>(&self, params: &M::Params, timeout: Duration) -> Step {
        let params = RawJson::encode(params).unwrap_or_else(|_| RawJson::from(Object::new()));
        Step::Ask { method: M::NAME, params, timeout }
    }

    fn no_common(&self, theirs: Vec<String>) -> Step {
        Step::Fail(OpenError::NoCommonVersion { theirs, ours: self.our_names() })
    }

    fn our_names(&self) -> Vec<String> {
        self.ours.iter().map(ToString::to_string).collect()
    }
}
