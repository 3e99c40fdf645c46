//! The types of every revision, one file per page of the specification.
//!
//! A type is the union of the definitions in all revisions. Decoding is lenient and encoding is exact:
//! [`crate::revision`] drops members that the peer's revision does not define. Unknown members are kept.

mod apps;
mod cancellation;
mod capability;
mod completion;
mod content;
mod elicitation;
mod form;
mod input;
mod lifecycle;
mod logging;
mod meta;
mod outcome;
mod pagination;
mod ping;
mod progress;
mod prompts;
mod resources;
mod roots;
mod sampling;
mod skills;
mod subscriptions;
mod tasks;
mod tools;

pub use self::apps::*;
pub use self::cancellation::*;
pub use self::capability::*;
pub use self::completion::*;
pub use self::content::*;
pub use self::elicitation::*;
pub use self::form::*;
pub use self::input::*;
pub use self::lifecycle::*;
pub use self::logging::*;
pub use self::meta::*;
pub use self::outcome::*;
pub use self::pagination::*;
pub use self::ping::*;
pub use self::progress::*;
pub use self::prompts::*;
pub use self::resources::*;
pub use self::roots::*;
pub use self::sampling::*;
pub use self::skills::*;
pub use self::subscriptions::*;
pub use self::tasks::*;
pub use self::tools::*;
