//! A browser for the authorization code flow: it opens the URL that the suite prints, and follows the redirects.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_REDIRECTS: usize = 5;

/// Opens the first authorization URL in the output of a suite.
#[derive(Debug)]
pub(super) struct Browser {
    log: PathBuf,
    has_opened: bool,
}

impl Browser {
    /// A browser for the suite that writes to this file.
    pub(super) fn new(log: PathBuf) -> Self {
        Self { log, has_opened: false }
    }

    /// Opens the URL if it has been printed and is not open yet.
    pub(super) fn look(&mut self) -> io::Result<()> {
        if self.has_opened {
            return Ok(());
        }
        let log = fs::read_to_string(&self.log)?;
        if let Some(url) = printed_url(&log) {
            self.has_opened = true;
            open(url)?;
        }
        Ok(())
    }
}

/// The authorization URL in the output. The last line may be incomplete.
fn printed_url(log: &str) -> Option<&str> {
    let complete = log.rsplit_once('\n')?.0;
    complete.lines().find(|line| line.starts_with("http://") && line.contains("response_type=code"))
}

/// Requests a URL and follows its redirects.
fn open(url: &str) -> io::Result<()> {
    let mut url = url.to_owned();
    for _ in 0..=MAX_REDIRECTS {
        let response = get(&url)?;
        match location(&response) {
            Some(location) => url = location.to_owned(),
            None if response.starts_with("HTTP/1.1 200") => return Ok(()),
            None => {
                let status = response.lines().next().unwrap_or_default();
                return Err(io::Error::other(format!("cannot open {url}: the response is {status:?}")));
            }
        }
    }
    Err(io::Error::other(format!("more than {MAX_REDIRECTS} redirects, the last to {url}")))
}

fn get(url: &str) -> io::Result<String> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, format!("{url} is not an http:// URL"));
    let (authority, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).ok_or_else(invalid)?;
    let mut stream = connect(authority, thread::sleep)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

/// Connects to a server. The suite prints the URL before it listens for the callback.
fn connect(authority: &str, mut wait: impl FnMut(Duration)) -> io::Result<TcpStream> {
    const PAUSE: Duration = Duration::from_millis(20);
    let mut waited = Duration::ZERO;
    loop {
        match TcpStream::connect(authority) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && waited < TIMEOUT => {
                wait(PAUSE);
                waited += PAUSE;
            }
            connected => return connected,
        }
    }
}

fn location(response: &str) -> Option<&str> {
    let (head, _) = response.split_once("\r\n\r\n")?;
    let headers = head.lines().filter_map(|line| line.split_once(':'));
    headers.filter(|(name, _)| name.eq_ignore_ascii_case("location")).map(|(_, value)| value.trim()).next()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Serves one response for each request, and returns the request lines.
    fn serve(responses: Vec<String>, listener: TcpListener) -> thread::JoinHandle<Vec<String>> {
        thread::spawn(move || {
            let mut lines = Vec::new();
            for response in responses {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 1024];
                let length = stream.read(&mut request).unwrap();
                lines.push(String::from_utf8_lossy(&request[..length]).lines().next().unwrap().to_owned());
                stream.write_all(response.as_bytes()).unwrap();
            }
            lines
        })
    }

    #[test]
    fn the_printed_url_is_opened_once_and_redirects_are_followed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let redirect = format!("HTTP/1.1 302 Found\r\nLocation: http://{address}/callback?code=c\r\n\r\n");
        let served = serve(vec![redirect, "HTTP/1.1 200 OK\r\n\r\nfine".to_owned()], listener);

        let log = std::env::temp_dir().join(format!("turms-xtask-{}-browser", std::process::id()));
        fs::write(&log, "access this URL:\n").unwrap();
        let mut browser = Browser::new(log.clone());
        browser.look().unwrap();
        fs::write(&log, format!("access this URL:\nhttp://{address}/authorize?response_type=code\n")).unwrap();
        browser.look().unwrap();
        browser.look().unwrap();
        assert_eq!(
            served.join().unwrap(),
            ["GET /authorize?response_type=code HTTP/1.1", "GET /callback?code=c HTTP/1.1"]
        );
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_response_without_a_redirect_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/authorize", listener.local_addr().unwrap());
        let served = serve(vec!["HTTP/1.1 400 Bad Request\r\n\r\n".to_owned()], listener);
        let error = open(&url).unwrap_err().to_string();
        assert!(error.contains("/authorize") && error.contains("400 Bad Request"), "{error}");
        served.join().unwrap();
    }

    #[test]
    fn a_server_that_does_not_listen_yet_is_tried_again() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut listener = None;
        connect(&address.to_string(), |_| listener = Some(TcpListener::bind(address).unwrap())).unwrap();
        assert!(listener.is_some());
        drop(listener);
        let error = connect(&address.to_string(), |_| {}).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn an_incomplete_line_is_not_a_url_yet() {
        assert_eq!(printed_url("open\nhttp://h/authorize?response_type=code&cli"), None);
        assert_eq!(
            printed_url("http://h/callback\nhttp://h/a?response_type=code\n"),
            Some("http://h/a?response_type=code")
        );
    }
}
