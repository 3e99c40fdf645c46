//! Differences between protocol revisions. No other module compares versions.

mod ability;
mod capability;
mod content;
mod elicitation;
mod error;
mod handshake;
mod loss;
mod member;
mod message;
mod meta;
mod method;
mod negotiation;
mod result;
mod sampling;
mod subscription;
mod task;
mod tool;
mod transport;
mod version;

pub use self::ability::Ability;
pub(crate) use self::elicitation::lower_field;
pub use self::elicitation::{UnsupportedFeatureError, check_elicitation, lower_elicitation};
pub use self::error::{lower_url_elicitation, raise_url_elicitation, unexpected_batch};
pub use self::handshake::{
    discover_of_initialize, initialize_of_discover, initialize_of_meta, meta_of_initialize, set_level_of_meta,
};
pub use self::loss::{LOSSES, Loss};
pub use self::member::{MEMBERS, MemberRange, VersionRange};
pub use self::message::{
    lower_notification, lower_params, lower_result, raise_notification, raise_params, raise_result,
};
pub use self::method::{Direction, METHODS, MethodInfo, MethodKind, method_info};
pub use self::negotiation::{names_stateless, newest_common, version_for_initialize};
pub use self::subscription::{SubscriptionChange, subscription_changes, tag_subscription};
pub use self::task::{core_task, core_task_result, task_of_core};
pub use self::transport::{Fit, Transport};
pub use self::version::{ProtocolVersion, UnknownVersionError};

/// A value that can be translated between revisions.
///
/// Inside the crates, values have the form of the newest revision. `raise` converts a value from an older peer, and
/// `lower` converts a value for a peer of another revision. The loss tables of this module list what is lost.
pub trait Translate {
    /// Rewrites the value to what `to` defines.
    fn lower(&mut self, to: ProtocolVersion);

    /// Completes a value from a peer of revision `from` with what the newest revision requires. Members that only
    /// `from` defines stay; lowering to the newest revision drops them.
    fn raise(&mut self, from: ProtocolVersion);

    /// Returns `true` if the value is empty and can be omitted.
    fn is_void(&self) -> bool {
        false
    }
}

/// Implements `Translate` for types that are the same in every revision.
macro_rules! opaque {
    ($($Name:ty),+) => {$(
        impl $crate::revision::Translate for $Name {
            fn lower(&mut self, _: $crate::ProtocolVersion) {}
            fn raise(&mut self, _: $crate::ProtocolVersion) {}
        }
    )+};
}
pub(crate) use opaque;

opaque!(String, bool, i64, f64, crate::RawJson, crate::Object, crate::Number, crate::RequestId, crate::ErrorCode);
opaque!(std::collections::BTreeMap<String, String>);

impl<T: Translate> Translate for Option<T> {
    fn lower(&mut self, to: ProtocolVersion) {
        if let Some(value) = self {
            let was_void = value.is_void();
            value.lower(to);
            if value.is_void() && !was_void {
                *self = None;
            }
        }
    }

    fn raise(&mut self, from: ProtocolVersion) {
        if let Some(value) = self {
            value.raise(from);
        }
    }
}

impl<T: Translate> Translate for Vec<T> {
    fn lower(&mut self, to: ProtocolVersion) {
        self.iter_mut().for_each(|value| value.lower(to));
    }

    fn raise(&mut self, from: ProtocolVersion) {
        self.iter_mut().for_each(|value| value.raise(from));
    }
}

impl<T: Translate> Translate for Box<T> {
    fn lower(&mut self, to: ProtocolVersion) {
        (**self).lower(to);
    }

    fn raise(&mut self, from: ProtocolVersion) {
        (**self).raise(from);
    }
}

impl<T: Translate> Translate for indexmap::IndexMap<String, T> {
    fn lower(&mut self, to: ProtocolVersion) {
        self.values_mut().for_each(|value| value.lower(to));
    }

    fn raise(&mut self, from: ProtocolVersion) {
        self.values_mut().for_each(|value| value.raise(from));
    }
}

impl Translate for crate::types::Reference {
    fn lower(&mut self, to: ProtocolVersion) {
        match self {
            Self::Prompt(reference) => reference.lower(to),
            Self::Resource(reference) => reference.lower(to),
        }
    }

    fn raise(&mut self, _: ProtocolVersion) {}
}

impl Translate for crate::types::InputRequest {
    fn lower(&mut self, to: ProtocolVersion) {
        match self {
            Self::Elicit(params) => params.lower(to),
            Self::Sample(params) => params.lower(to),
            Self::Roots(params) => params.lower(to),
        }
    }

    fn raise(&mut self, from: ProtocolVersion) {
        match self {
            Self::Elicit(params) => params.raise(from),
            Self::Sample(params) => params.raise(from),
            Self::Roots(params) => params.raise(from),
        }
    }
}
