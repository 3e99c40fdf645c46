//! A browser without a window, for logins.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 10;

/// A browser that follows redirects, keeps cookies, and fills in forms. It blocks, and only knows HTTP without TLS.
#[derive(Debug, Default)]
pub struct Browser {
    cookies: BTreeMap<String, String>,
}

/// A page, after all redirects.
#[derive(Debug)]
pub struct Page {
    /// Its URL.
    pub url: String,
    /// Status of the response.
    pub status: u16,
    /// The HTML.
    pub body: String,
}

impl Browser {
    /// Creates a browser without cookies.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a URL.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub fn open(&mut self, url: &str) -> Page {
        self.follow(url, None)
    }

    /// Opens a URL, and returns the URL of its redirect, which is not followed.
    ///
    /// # Panics
    /// If the response is not a redirect.
    pub fn redirect_of(&mut self, url: &str) -> String {
        let (head, body) = self.request(url, None);
        header(&head, "location").unwrap_or_else(|| panic!("no redirect: {head}\n{body}")).to_owned()
    }

    /// Sends the form of a page to the URL of the page, with its hidden fields and these.
    ///
    /// # Panics
    /// If the response cannot be read.
    pub fn submit(&mut self, page: &Page, fields: &[(&str, &str)]) -> Page {
        let hidden = page.body.split("type=\"hidden\" name=\"").skip(1).filter_map(|field| {
            let (name, rest) = field.split_once("\" value=\"")?;
            Some((name, rest.split('"').next()?))
        });
        let fields = hidden.chain(fields.iter().copied()).map(|(name, value)| format!("{name}={value}"));
        self.follow(&page.url, Some(fields.collect::<Vec<_>>().join("&")))
    }

    fn follow(&mut self, url: &str, mut form: Option<String>) -> Page {
        let mut url = url.to_owned();
        for _ in 0..MAX_REDIRECTS {
            let (head, body) = self.request(&url, form.take());
            let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line");
            match header(&head, "location").filter(|_| (300..400).contains(&status)) {
                Some(next) => url = next.to_owned(),
                None => return Page { url, status, body },
            }
        }
        panic!("too many redirects to {url}");
    }

    /// Sends a request, and returns the head and the body of the response.
    fn request(&mut self, url: &str, form: Option<String>) -> (String, String) {
        let rest = url.strip_prefix("http://").expect("a URL with http://");
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let method = if form.is_some() { "POST" } else { "GET" };
        let cookies: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let body = form.unwrap_or_default();
        let mut stream = TcpStream::connect(host).unwrap_or_else(|error| panic!("cannot connect to {host}: {error}"));
        let request = format!(
            "{method} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nCookie: {}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            cookies.join("; "),
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").expect("a response with a head");
        for cookie in head.lines().filter_map(|line| header(line, "set-cookie")) {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').expect("a cookie with a value");
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
        (head.to_owned(), body.to_owned())
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut headers = head.lines().filter_map(|line| line.split_once(": "));
    headers.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}
