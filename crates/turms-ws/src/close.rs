use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
#[cfg(feature = "client")]
use turms_core::Ended;
use turms_core::escape_control;

/// How a connection ends, seen from both ends: what is to be said, and what was heard.
///
/// The socket belongs to the connection's driver. Whoever serves the connection, or asks how it ended, has this.
#[derive(Debug, Default)]
pub(crate) struct Farewell {
    going_away: AtomicBool,
    heard: OnceLock<String>,
}

impl Farewell {
    /// From now on the reason for an end is that this side serves nobody any more.
    #[cfg(feature = "server")]
    pub(crate) fn go_away(&self) {
        self.going_away.store(true, Ordering::Relaxed);
    }

    /// What is said when this side ends the connection without a fault.
    pub(crate) fn words(&self) -> CloseFrame {
        match self.going_away.load(Ordering::Relaxed) {
            true => close_frame(CloseCode::Away, "the server is shutting down"),
            false => close_frame(CloseCode::Normal, ""),
        }
    }

    /// The peer has said goodbye.
    pub(crate) fn heard(&self, close: Option<&CloseFrame>) {
        self.note(match close {
            Some(close) => format!("closed the connection ({})", Shown(close)),
            None => "closed the connection without saying why".to_owned(),
        });
    }

    /// The peer is gone without a word.
    pub(crate) fn vanished(&self) {
        self.note("dropped the connection without closing it".to_owned());
    }

    pub(crate) fn broke(&self, error: &std::io::Error) {
        self.note(format!("dropped the connection: {error}"));
    }

    pub(crate) fn fell_silent(&self, silence: Duration) {
        self.note(format!("sent nothing for {silence:?}, and did not answer a ping"));
    }

    /// The peer did what it may not do.
    pub(crate) fn misbehaved(&self, how: &str) {
        self.note(format!("broke the rules of WebSocket or of this transport: {how}"));
    }

    /// What came first is why; the rest is a consequence.
    fn note(&self, how: String) {
        let _ = self.heard.set(how);
    }

    /// What became of the other side.
    #[cfg(feature = "client")]
    pub(crate) fn ended(&self) -> Ended {
        match self.heard.get() {
            Some(how) => Ended::new().how(how),
            None => Ended::new(),
        }
    }
}

/// A close frame that fits: a control frame holds 125 bytes, and the code takes two of them.
pub(crate) fn close_frame(code: CloseCode, reason: &str) -> CloseFrame {
    let ends = reason.char_indices().map(|(start, character)| start + character.len_utf8());
    let end = ends.take_while(|end| *end <= MOST_REASON).last().unwrap_or(0);
    CloseFrame { code, reason: reason[..end].into() }
}

const MOST_REASON: usize = 123;

/// A close frame for people: `1001 going away: restarting`.
struct Shown<'a>(&'a CloseFrame);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = u16::from(self.0.code);
        let name = name_of(code).map_or(Cow::Borrowed(""), |name| Cow::Owned(format!(" {name}")));
        match self.0.reason.is_empty() {
            true => write!(f, "{code}{name}"),
            false => write!(f, "{code}{name}: {}", escape_control(&self.0.reason)),
        }
    }
}

/// As the registry of close codes names them (RFC 6455, 7.4.1).
fn name_of(code: u16) -> Option<&'static str> {
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

    fn after(close: Option<&CloseFrame>) -> String {
        let farewell = Farewell::default();
        farewell.heard(close);
        farewell.ended().to_string()
    }

    #[test]
    fn what_the_peer_said_is_shown_to_people() {
        assert_eq!(after(None), "the server closed the connection without saying why");
        let away = close_frame(CloseCode::Away, "restarting\u{1b}");
        assert_eq!(after(Some(&away)), "the server closed the connection (1001 going away: restarting\\u{1b})");
        let own = close_frame(CloseCode::from(4001), "");
        assert_eq!(after(Some(&own)), "the server closed the connection (4001)");
    }

    #[test]
    fn the_first_reason_stays() {
        let farewell = Farewell::default();
        farewell.fell_silent(Duration::from_secs(60));
        farewell.vanished();
        assert_eq!(farewell.ended().how.as_deref(), Some("sent nothing for 60s, and did not answer a ping"));
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let frame = close_frame(CloseCode::Protocol, &"\u{e4}".repeat(100));
        assert_eq!(frame.reason.len(), 122);
    }
}
