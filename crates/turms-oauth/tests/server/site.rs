//! Other web sites of the tests: documents of clients, and addresses that must not be connected to.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::Arc;

use axum::Router;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use serde_json::Value;

/// Serves an application on loopback, and returns its origin.
pub(crate) async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, router).into_future());
    origin
}

/// A site with documents, which counts requests.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) origin: String,
    state: Arc<Mutex<SiteState>>,
}

#[derive(Default)]
struct SiteState {
    pages: HashMap<String, (StatusCode, &'static str, String)>,
    requests: usize,
}

impl Site {
    pub(crate) async fn new() -> Self {
        let state: Arc<Mutex<SiteState>> = Arc::default();
        let shared = state.clone();
        let respond = move |uri: Uri| async move { respond(&shared, uri.path()) };
        Self { origin: serve(Router::new().fallback(respond)).await, state }
    }

    /// Adds a document, and returns its URL.
    pub(crate) fn json(&self, path: &str, document: &Value) -> String {
        self.page(path, StatusCode::OK, "application/json", document.to_string())
    }

    pub(crate) fn page(&self, path: &str, status: StatusCode, kind: &'static str, body: String) -> String {
        self.state.lock().pages.insert(path.to_owned(), (status, kind, body));
        self.url(path)
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    pub(crate) fn requests(&self) -> usize {
        self.state.lock().requests
    }
}

fn respond(state: &Mutex<SiteState>, path: &str) -> Response {
    let mut state = state.lock();
    state.requests += 1;
    let Some((status, kind, body)) = state.pages.get(path).cloned() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if status.is_redirection() {
        return (status, [(LOCATION, body)]).into_response();
    }
    (status, [(CONTENT_TYPE, kind)], body).into_response()
}

/// An address that counts connections and never responds.
pub(crate) struct Forbidden(TcpListener);

impl Forbidden {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    /// Returns `true` if there was a connection.
    pub(crate) fn was_connected(&self) -> bool {
        match self.0.accept() {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                false
            }
        }
    }
}
