//! Messages to the person who logs in.

use std::fmt;

use url::Url;

/// A message to the person who logs in. `Display` has a text for terminals.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum LoginMessage<'a> {
    /// The browser is started. The person can also open the URL by hand, on this machine.
    OpeningBrowser {
        /// URL to open.
        url: &'a Url,
    },
    /// The browser could not be started. The login goes on: the person can open the URL by hand, on this machine.
    BrowserFailed {
        /// URL to open.
        url: &'a Url,
        /// The reason.
        reason: &'a str,
    },
    /// The person opens the URL on any machine, and pastes the URL of the page that the login ends on.
    Paste {
        /// URL to open.
        url: &'a Url,
    },
    /// The pasted text was not accepted. The person can paste another.
    PasteAgain {
        /// The reason.
        reason: &'a str,
    },
    /// The person opens a URL on any machine and enters a code.
    DeviceCode {
        /// URL to open.
        url: &'a Url,
        /// URL with the code in it.
        complete_url: Option<&'a Url>,
        /// The code to enter.
        code: &'a str,
    },
}

impl fmt::Display for LoginMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpeningBrowser { url } => write!(
                f,
                "Opening the browser to log in. If it does not open, open this URL on this machine:\n\n  {url}\n\n\
                 If the browser is on another machine, log in with --paste or --device."
            ),
            Self::BrowserFailed { url, reason } => write!(
                f,
                "The browser could not be started: {reason}. Open this URL on this machine:\n\n  {url}\n\n\
                 If the browser is on another machine, log in with --paste or --device."
            ),
            Self::Paste { url } => write!(
                f,
                "Open this URL in a browser and log in:\n\n  {url}\n\n\
                 The browser then shows a page that may fail to load. Paste the whole address of that page here:"
            ),
            Self::PasteAgain { reason } => write!(f, "Not accepted: {reason}. Paste the address again:"),
            Self::DeviceCode { url, complete_url, code } => {
                write!(f, "Open this URL in a browser on any machine:\n\n  {url}\n\nand enter the code {code}")?;
                match complete_url {
                    Some(complete_url) => {
                        write!(f, "\n\nOr open this URL, which has the code in it:\n\n  {complete_url}")
                    }
                    None => Ok(()),
                }
            }
        }
    }
}
