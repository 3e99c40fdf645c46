//! Pages for people, and the protection of their forms.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HeaderValue, ORIGIN, REFERRER_POLICY, SET_COOKIE, X_FRAME_OPTIONS,
};
use url::{Position, Url};

use super::authorize::AuthorizeRequest;
use super::clients::ServerClient;
use super::http::{HttpRequest, HttpResponse, response};
use super::params::Params;
use super::redirect::host_of;
use super::refusal::Refusal;
use crate::jws::{MacKey, encode, sha256};
use crate::pkce::random_token;

const STYLE: &str = "body{font-family:sans-serif;max-width:32rem;margin:3rem auto;padding:0 1rem;line-height:1.5}\
    button{font-size:1rem;padding:.4rem 1.2rem;margin-right:.5rem}label{display:block;margin:.5rem 0}\
    .warning{border-left:.3rem solid #b40;padding-left:.7rem}code{overflow-wrap:anywhere}";

/// Creates a page. `body` is HTML.
pub(crate) fn page(status: StatusCode, title: &str, body: &str) -> HttpResponse {
    let title = escape(title);
    let html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head>\
         <body><h1>{title}</h1>{body}</body></html>\n"
    );
    let mut page = response(status, html);
    let headers = page.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    // Not `no-referrer`: browsers would send `Origin: null` with the form.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    // No `form-action`: some browsers apply it to the redirects that follow, which lead to the client.
    let style = STANDARD.encode(sha256(STYLE));
    let policy = format!("default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; frame-ancestors 'none'");
    if let Ok(policy) = HeaderValue::try_from(policy) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    page
}

/// Creates the page for a request that cannot be answered with a redirect.
pub(crate) fn error_page(refusal: &Refusal) -> HttpResponse {
    error_page_with(refusal, "")
}

/// Creates the page for a request that a person may return from, to a URL of a host.
pub(crate) fn error_page_with_link(refusal: &Refusal, url: &str, host: &str) -> HttpResponse {
    let link = format!(
        "<p class=\"warning\">This request came from another site. Only if you know it: \
         <a href=\"{}\" rel=\"noreferrer\">return to {}</a></p>",
        escape(url),
        escape(host)
    );
    error_page_with(refusal, &link)
}

fn error_page_with(refusal: &Refusal, more: &str) -> HttpResponse {
    let body = format!("<p>{}: {}</p>{more}", escape(refusal.error), escape(&refusal.description));
    let status = if refusal.status == StatusCode::UNAUTHORIZED { StatusCode::BAD_REQUEST } else { refusal.status };
    page(status, "This request cannot be processed", &body)
}

/// Returns a description of a request for people: the client, the host that the code is sent to, and the rights.
pub(crate) fn describe(request: &AuthorizeRequest) -> String {
    let (host, is_local) = host_of(&request.details.redirect_uri);
    let mut html = describe_client(&request.client);
    let _ = write!(html, "<p>Afterwards you return to <strong>{}</strong>.</p>", escape(&host));
    if is_local {
        html.push_str(
            "<p class=\"warning\">The application runs on this machine. Its name cannot be verified: approve only if you have \
             just started the login yourself.</p>",
        );
    }
    html.push_str(&describe_rights(&request.details.scopes, &request.details.resources));
    html
}

/// Returns the name and the id of a client for people.
pub(crate) fn describe_client(client: &ServerClient) -> String {
    format!(
        "<p><strong>{}</strong> asks for access.</p><p>Id of the application: <code>{}</code></p>",
        escape(client.display_name()),
        escape(&shortened(&client.id))
    )
}

/// Returns rights for people.
pub(crate) fn describe_rights(scopes: &[String], resources: &[String]) -> String {
    let mut html = String::new();
    list(&mut html, "Access", scopes);
    list(&mut html, "For", resources);
    html
}

fn list(html: &mut String, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    let _ = write!(html, "<p>{title}:</p><ul>");
    for item in items {
        let _ = write!(html, "<li><code>{}</code></li>", escape(item));
    }
    html.push_str("</ul>");
}

/// Shortens the id of a client. The host of a URL stays whole, because its end says whose it is.
fn shortened(id: &str) -> String {
    let host = Url::parse(id).map_or(0, |url| url[..Position::AfterPort].len());
    match id.char_indices().nth(host.max(120)) {
        Some((end, _)) => format!("{}…", &id[..end]),
        None => id.to_owned(),
    }
}

/// Escapes text for HTML, in content and in quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

fn cookies_of(request: &HttpRequest) -> impl Iterator<Item = (&str, &str)> {
    let cookies = request.headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='))
}

/// Binds forms to the browser that requested them, with a cookie and a token in the form.
pub(crate) struct BrowserSessions {
    key: MacKey,
    origin: String,
    is_secure: bool,
}

impl BrowserSessions {
    pub(crate) fn new(key: &[u8; 32], issuer: &Url) -> Self {
        Self {
            key: MacKey::new(key),
            origin: issuer.origin().ascii_serialization(),
            is_secure: issuer.scheme() == "https",
        }
    }

    /// Returns the name of a cookie. Over HTTPS, its prefix makes sure that no other host has set it.
    pub(crate) fn cookie_name(&self, name: &str) -> String {
        if self.is_secure { format!("__Host-turms-{name}") } else { format!("turms-{name}") }
    }

    pub(crate) fn cookie<'a>(&self, request: &'a HttpRequest, name: &str) -> Option<&'a str> {
        let name = self.cookie_name(name);
        cookies_of(request).find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// Returns the cookies whose names begin with a prefix: the rest of each name, and the value.
    #[cfg(feature = "proxy")]
    pub(crate) fn cookies<'a>(
        &self,
        request: &'a HttpRequest,
        prefix: &str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let prefix = self.cookie_name(prefix);
        cookies_of(request).filter_map(move |(name, value)| Some((name.strip_prefix(&prefix)?, value)))
    }

    /// Adds a cookie to a response.
    pub(crate) fn set_cookie(&self, response: &mut HttpResponse, name: &str, value: &str, seconds: u64) {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let name = self.cookie_name(name);
        let cookie = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
    }

    /// Returns the session of the browser.
    pub(crate) fn session<'a>(&self, request: &'a HttpRequest) -> Option<&'a str> {
        self.cookie(request, "session").filter(|session| session.len() == 43)
    }

    /// Creates a page with HTML that says what a person decides about, and a form. `form` creates its HTML from the hidden field with
    /// the token.
    pub(crate) fn form_page(
        &self,
        request: &HttpRequest,
        status: StatusCode,
        title: &str,
        shown: &str,
        form: impl FnOnce(&str) -> String,
    ) -> HttpResponse {
        let session = self.session_or_new(request);
        let token = self.form_token(&session, request, shown);
        let field = format!("<input type=\"hidden\" name=\"csrf\" value=\"{token}\">");
        let mut page = page(status, title, &format!("{shown}{}", form(&field)));
        self.set_session(&mut page, &session);
        page
    }

    /// Returns the session of the browser, or a new one.
    pub(crate) fn session_or_new(&self, request: &HttpRequest) -> String {
        self.session(request).map_or_else(|| random_token().expose().to_owned(), str::to_owned)
    }

    /// Keeps the session of the browser for an hour from now.
    pub(crate) fn set_session(&self, response: &mut HttpResponse, session: &str) {
        self.set_cookie(response, "session", session, 60 * 60);
    }

    /// Checks that a form was sent by the browser that requested it, and that its page has shown the same. Returns the session.
    pub(crate) fn check_form<'a>(
        &self,
        request: &'a HttpRequest,
        form: &Params,
        shown: &str,
    ) -> Result<&'a str, Refusal> {
        let reason = "the form was not requested by this browser, or the request has changed; go back and try again";
        let forged = || Refusal::new("access_denied", reason);
        let session = self.session(request).ok_or_else(forged)?;
        if request.headers.contains_key(ORIGIN) && request.header(&ORIGIN) != Some(&self.origin) {
            return Err(forged());
        }
        let token = form.get("csrf").ok_or_else(forged)?;
        let expected = self.form_token(session, request, shown);
        if crate::secret::Secret::new(token) == crate::secret::Secret::new(expected) {
            Ok(session)
        } else {
            Err(forged())
        }
    }

    /// The token of a form is valid for one session, one URL, and what its page has shown: the metadata document of a client may change
    /// in between.
    fn form_token(&self, session: &str, request: &HttpRequest, shown: &str) -> String {
        let shown = encode(sha256(shown));
        encode(self.key.sign(format!("form {session} {shown} {}?{}", request.path, request.query).as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::ClientMetadata;
    use crate::server::clients::{ClientCredential, ClientOrigin};

    #[test]
    fn the_host_of_a_client_is_shown_whole() {
        let shown = |id: &str| {
            let origin = ClientOrigin::Document;
            let metadata = ClientMetadata::default();
            describe_client(&ServerClient::from_metadata(metadata, id.to_owned(), origin, ClientCredential::Public))
        };
        let label = "a".repeat(60);
        let host = format!("https://login.example.com.{label}.{label}.evil.example:8443");
        let text = shown(&format!("{host}/{}", "x".repeat(500)));
        assert!(text.contains(&format!("{host}…</code>")), "{text}");
        let text = shown(&format!("https://evil.example/{}", "x".repeat(500)));
        assert!(text.contains(&format!("{}…</code>", "x".repeat(99))), "{text}");
        let text = shown(&format!("registered.{}", "x".repeat(500)));
        assert!(text.contains(&format!("{}…</code>", "x".repeat(109))), "{text}");
    }

    #[test]
    fn html_is_escaped() {
        assert_eq!(escape("<a href='x' b=\"&\">"), "&lt;a href=&#39;x&#39; b=&quot;&amp;&quot;&gt;");
    }
}
