use crate::Notification;
use crate::RequestId;
use crate::method::NotificationMethod as _;
use crate::types::{ProgressNotification, ProgressParams, key};

/// The request that a notification belongs to.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RelatedRequest {
    /// The request with this progress token.
    Progress(ProgressParams),
    /// The listen request with this id.
    Subscription(RequestId),
}

impl RelatedRequest {
    /// Returns the request that a notification names; `None` if it names none that can be read.
    #[must_use]
    pub fn of(notification: &Notification) -> Option<Self> {
        if &*notification.method == ProgressNotification::NAME {
            return notification.params::<ProgressNotification>().ok().map(Self::Progress);
        }
        let id = notification.params.as_ref()?.meta()?.member(key::SUBSCRIPTION_ID)?;
        id.decode().ok().map(Self::Subscription)
    }
}
