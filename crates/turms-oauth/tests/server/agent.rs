//! An HTTP client for the tests, with cookies and without following redirects.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderName, LOCATION, SET_COOKIE};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use turms_oauth::pkce;
use url::Url;
use url::form_urlencoded::Serializer;

pub(crate) const REDIRECT: &str = "http://127.0.0.1:9/callback";

/// A response with its body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{} is not JSON", self.text()))
    }

    /// Returns the JSON of a success.
    pub(crate) fn ok(&self) -> Value {
        assert!(self.status.is_success(), "{} {}", self.status, self.text());
        self.json()
    }

    /// Returns the status and the error code.
    pub(crate) fn error(&self) -> (u16, String) {
        let json = self.json();
        (self.status.as_u16(), json["error"].as_str().unwrap_or_else(|| panic!("no error in {json}")).to_owned())
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn location(&self) -> Url {
        assert!(self.status.is_redirection(), "{} {}", self.status, self.text());
        Url::parse(self.headers[LOCATION].to_str().unwrap()).unwrap()
    }

    /// Returns a parameter of the redirect.
    pub(crate) fn param(&self, name: &str) -> Option<String> {
        param(&self.location(), name)
    }

    /// Returns the value of the hidden field with the token of the form.
    pub(crate) fn csrf(&self) -> String {
        let text = self.text();
        let (_, rest) = text.split_once("name=\"csrf\" value=\"").unwrap_or_else(|| panic!("no form in {text}"));
        rest.split('"').next().unwrap().to_owned()
    }
}

pub(crate) fn param(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(own, _)| own == name).map(|(_, value)| value.into_owned())
}

/// A browser, or a client without one.
pub(crate) struct Agent {
    client: Client<HttpConnector, Full<Bytes>>,
    pub(crate) cookies: BTreeMap<String, String>,
    /// All that was received: headers and bodies.
    pub(crate) seen: String,
}

impl Agent {
    pub(crate) fn new() -> Self {
        Self {
            client: Client::builder(TokioExecutor::new()).build_http(),
            cookies: BTreeMap::new(),
            seen: String::new(),
        }
    }

    pub(crate) async fn get(&mut self, url: impl AsRef<str>) -> Answer {
        self.send(Method::GET, url.as_ref(), &[], Bytes::new()).await
    }

    pub(crate) async fn post(&mut self, url: impl AsRef<str>, form: &[(&str, &str)]) -> Answer {
        self.post_with(url, form, &[]).await
    }

    pub(crate) async fn post_with(
        &mut self,
        url: impl AsRef<str>,
        form: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> Answer {
        let body = Serializer::new(String::new()).extend_pairs(form).finish();
        let mut headers = headers.to_vec();
        headers.push((CONTENT_TYPE.as_str(), "application/x-www-form-urlencoded"));
        self.send(Method::POST, url.as_ref(), &headers, body.into()).await
    }

    pub(crate) async fn post_json(&mut self, url: impl AsRef<str>, body: &Value) -> Answer {
        let headers = [(CONTENT_TYPE.as_str(), "application/json")];
        self.send(Method::POST, url.as_ref(), &headers, body.to_string().into()).await
    }

    pub(crate) async fn send(&mut self, method: Method, url: &str, headers: &[(&str, &str)], body: Bytes) -> Answer {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(HeaderName::from_bytes(name.as_bytes()).unwrap(), *value);
        }
        if !self.cookies.is_empty() {
            let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            request = request.header(COOKIE, cookies.join("; "));
        }
        let response = self.client.request(request.body(Full::new(body)).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        for cookie in head.headers.get_all(SET_COOKIE) {
            let cookie = cookie.to_str().unwrap();
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            self.cookies.insert(name.to_owned(), value.to_owned());
            if cookie.contains("; Max-Age=0;") {
                self.cookies.remove(name);
            }
        }
        let body = body.collect().await.unwrap().to_bytes();
        self.seen.push_str(&format!("{:?}\n{}\n", head.headers, String::from_utf8_lossy(&body)));
        Answer { status: head.status, headers: head.headers, body }
    }
}

/// Returns `Authorization: Basic`.
pub(crate) fn basic(user: &str, password: &str) -> (&'static str, String) {
    (AUTHORIZATION.as_str(), format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
}

/// An authorization request and its verifier.
pub(crate) struct Login {
    pub(crate) params: Vec<(String, String)>,
    pub(crate) verifier: String,
}

impl Login {
    pub(crate) fn new(client: &str) -> Self {
        let pkce = pkce();
        let mut login = Self { params: Vec::new(), verifier: pkce.verifier.expose().to_owned() };
        for (name, value) in [
            ("response_type", "code"),
            ("client_id", client),
            ("redirect_uri", REDIRECT),
            ("state", "the state"),
            ("code_challenge", &pkce.challenge),
            ("code_challenge_method", "S256"),
        ] {
            login = login.with(name, value);
        }
        login
    }

    /// Sets a parameter. An empty one is left out.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.params.retain(|(own, _)| own != name);
        if !value.is_empty() {
            self.params.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    pub(crate) fn url(&self, endpoint: &str) -> String {
        Url::parse_with_params(endpoint, &self.params).unwrap().into()
    }

    /// Returns the form that exchanges the code.
    pub(crate) fn exchange<'a>(&'a self, code: &'a str) -> Vec<(&'a str, &'a str)> {
        let param = |name: &str| self.params.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
        let mut form = vec![("grant_type", "authorization_code"), ("code", code), ("code_verifier", &*self.verifier)];
        form.extend(["client_id", "redirect_uri", "resource"].iter().filter_map(|&name| Some((name, param(name)?))));
        form
    }
}

/// Decodes the header and the claims of a token, without checking its signature.
pub(crate) fn decode(token: &str) -> (Value, Value) {
    let part = |index: usize| {
        let bytes = URL_SAFE_NO_PAD.decode(token.split('.').nth(index).unwrap()).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    };
    (part(0), part(1))
}
