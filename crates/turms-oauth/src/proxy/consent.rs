//! Approvals of clients, remembered in a signed cookie.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::jws::{MacKey, encode, sha256};
use crate::server::authorize::AuthorizeRequest;
use crate::server::clients::ClientOrigin;
use crate::server::redirect::{host_of, without_port};

/// Maximum number of approvals of one browser. The oldest are forgotten.
const MAX_APPROVALS: usize = 32;

const ID_BYTES: usize = 16;
const TIME_BYTES: usize = 8;
const CODE_BYTES: usize = 32;

pub(super) const COOKIE: &str = "approvals";

/// Remembers approvals.
pub(super) struct Approvals {
    key: MacKey,
    /// Lifetime, in seconds.
    pub(super) lifetime: u64,
}

/// The hash of an approval, and the second in which it ends.
type Approval = ([u8; ID_BYTES], u64);

impl Approvals {
    pub(super) fn new(key: &[u8; 32], lifetime: u64) -> Self {
        Self { key: MacKey::new(key), lifetime }
    }

    /// Returns `true` if the cookie has an approval for a request.
    pub(super) fn contains(&self, cookie: Option<&str>, request: &AuthorizeRequest, now: u64) -> bool {
        is_rememberable(request) && self.read(cookie, now).iter().any(|(id, _)| *id == id_of(request))
    }

    /// Returns the cookie with a further approval. `None` if it must not be remembered.
    pub(super) fn add(&self, cookie: Option<&str>, request: &AuthorizeRequest, now: u64) -> Option<String> {
        if self.lifetime == 0 || !is_rememberable(request) {
            return None;
        }
        let id = id_of(request);
        let mut approvals = self.read(cookie, now);
        approvals.retain(|(own, _)| *own != id);
        approvals.push((id, now.saturating_add(self.lifetime)));
        let oldest = approvals.len().saturating_sub(MAX_APPROVALS);
        let mut bytes = Vec::new();
        for (id, end) in &approvals[oldest..] {
            bytes.extend_from_slice(id);
            bytes.extend_from_slice(&end.to_be_bytes());
        }
        let code = self.key.sign(&bytes);
        bytes.extend_from_slice(&code);
        Some(encode(bytes))
    }

    /// Returns the approvals in a cookie that have not ended. A forged cookie has none.
    fn read(&self, cookie: Option<&str>, now: u64) -> Vec<Approval> {
        let bytes = cookie.and_then(|cookie| URL_SAFE_NO_PAD.decode(cookie).ok()).unwrap_or_default();
        let Some((approvals, code)) = bytes.split_last_chunk::<CODE_BYTES>() else { return Vec::new() };
        if !self.key.is_valid(approvals, code) {
            return Vec::new();
        }
        let approvals = approvals.chunks_exact(ID_BYTES + TIME_BYTES).filter_map(|approval| {
            let (id, end) = approval.split_first_chunk::<ID_BYTES>()?;
            Some((*id, u64::from_be_bytes(end.try_into().ok()?)))
        });
        approvals.filter(|(_, end)| now < *end).take(MAX_APPROVALS).collect()
    }
}

/// Returns `false` for a client whose id any program on the machine of a person can use (RFC 8252, 8.6).
fn is_rememberable(request: &AuthorizeRequest) -> bool {
    let (_, is_local) = host_of(&request.details.redirect_uri);
    !(is_local && request.client.origin == ClientOrigin::Document)
}

/// An approval is for one client, redirect URI and set of scopes and resources.
fn id_of(request: &AuthorizeRequest) -> [u8; ID_BYTES] {
    let details = &request.details;
    let mut scopes = details.scopes.clone();
    scopes.sort_unstable();
    let parts = (&request.client.id, without_port(&details.redirect_uri), scopes, &details.resources);
    let text = serde_json::to_vec(&parts).unwrap_or_default();
    let mut id = [0; ID_BYTES];
    id.copy_from_slice(&sha256(text)[..ID_BYTES]);
    id
}
