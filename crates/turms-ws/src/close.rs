use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use turms_core::__internal::escape_control;
#[cfg(feature = "client")]
use turms_core::CloseInfo;
use turms_proto::format_duration;

/// The state of closing a connection: the close frame to send, and why the peer has closed.
///
/// It is shared between the socket, which the driver of the connection owns, and the code that serves or observes the connection.
#[derive(Debug, Default)]
pub(crate) struct CloseState {
    /// The close frame to send, if it is not that of a client that does not need the connection any more.
    #[cfg(feature = "server")]
    frame: OnceLock<CloseFrame>,
    /// A description of what the peer did. It continues a sentence that begins with "the server".
    reason: OnceLock<String>,
}

impl CloseState {
    /// Makes [`frame`](Self::frame) return 1001.
    #[cfg(feature = "server")]
    pub(crate) fn begin_shutdown(&self) {
        let _ = self.frame.set(close_frame(CloseCode::Away, "the server is shutting down"));
    }

    /// Makes [`frame`](Self::frame) return 1008.
    #[cfg(feature = "server")]
    pub(crate) fn token_expired(&self) {
        let _ = self.frame.set(close_frame(CloseCode::Policy, "the access token has expired"));
    }

    /// The close frame of this side, unless it closes because of an error.
    pub(crate) fn frame(&self) -> CloseFrame {
        #[cfg(feature = "server")]
        if let Some(frame) = self.frame.get() {
            return frame.clone();
        }
        close_frame(CloseCode::Normal, "")
    }

    /// The peer has sent a close frame.
    pub(crate) fn received(&self, close: Option<&CloseFrame>) {
        self.set_reason(match close {
            Some(close) => format!("closed the connection ({})", CloseFrameDisplay(close)),
            None => "closed the connection without a reason".to_owned(),
        });
    }

    /// The peer has disconnected without a close frame.
    pub(crate) fn disconnected(&self) {
        self.set_reason("disconnected without a close frame".to_owned());
    }

    pub(crate) fn failed(&self, error: &std::io::Error) {
        self.set_reason(format!("disconnected: {error}"));
    }

    pub(crate) fn ping_timed_out(&self, silence: Duration) {
        self.set_reason(format!("sent nothing for {} and did not respond to a ping", format_duration(silence)));
    }

    /// The peer has violated the protocol.
    pub(crate) fn violated(&self, violation: &str) {
        self.set_reason(format!("violated the WebSocket protocol: {violation}"));
    }

    /// Sets the reason, unless there is one: later events are consequences of the first.
    fn set_reason(&self, reason: String) {
        let _ = self.reason.set(reason);
    }

    /// The reason why the connection is closed.
    #[cfg(feature = "client")]
    pub(crate) fn reason(&self) -> CloseInfo {
        match self.reason.get() {
            Some(reason) => CloseInfo::new().how(reason),
            None => CloseInfo::new(),
        }
    }
}

/// Creates a close frame. The reason is truncated to fit into a control frame.
pub(crate) fn close_frame(code: CloseCode, reason: &str) -> CloseFrame {
    let ends = reason.char_indices().map(|(start, character)| start + character.len_utf8());
    let end = ends.take_while(|end| *end <= MAX_REASON_BYTES).last().unwrap_or(0);
    CloseFrame { code, reason: reason[..end].into() }
}

/// Maximum length of a reason: a control frame has 125 bytes, and the code takes two.
const MAX_REASON_BYTES: usize = 123;

/// Displays a close frame: `1001 going away: restarting`.
struct CloseFrameDisplay<'a>(&'a CloseFrame);

impl fmt::Display for CloseFrameDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = u16::from(self.0.code);
        let name = code_name(code).map_or(Cow::Borrowed(""), |name| Cow::Owned(format!(" {name}")));
        match self.0.reason.is_empty() {
            true => write!(f, "{code}{name}"),
            false => write!(f, "{code}{name}: {}", escape_control(&self.0.reason)),
        }
    }
}

/// Returns the name of a close code (RFC 6455, 7.4.1, and the IANA registry).
fn code_name(code: u16) -> Option<&'static str> {
    Some(match code {
        1000 => "normal",
        1001 => "going away",
        1002 => "protocol error",
        1003 => "unsupported data",
        1007 => "invalid data",
        1008 => "policy violation",
        1009 => "message too big",
        1010 => "extension needed",
        1011 => "internal error",
        1012 => "service restart",
        1013 => "try again later",
        1014 => "bad gateway",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason_after(close: Option<&CloseFrame>) -> String {
        let state = CloseState::default();
        state.received(close);
        state.reason().to_string()
    }

    #[test]
    fn the_close_frame_of_the_peer_is_the_reason() {
        assert_eq!(reason_after(None), "the server closed the connection without a reason");
        let away = close_frame(CloseCode::Away, "restarting\u{1b}");
        assert_eq!(reason_after(Some(&away)), "the server closed the connection (1001 going away: restarting\\u{1b})");
        let own = close_frame(CloseCode::from(4001), "");
        assert_eq!(reason_after(Some(&own)), "the server closed the connection (4001)");
    }

    #[test]
    fn the_first_reason_is_kept() {
        let state = CloseState::default();
        state.ping_timed_out(Duration::from_secs(60));
        state.disconnected();
        assert_eq!(state.reason().how.as_deref(), Some("sent nothing for 60 s and did not respond to a ping"));
    }

    #[test]
    fn a_long_reason_is_truncated_between_characters() {
        let frame = close_frame(CloseCode::Protocol, &"\u{e4}".repeat(100));
        assert_eq!(frame.reason.len(), 122);
    }
}
