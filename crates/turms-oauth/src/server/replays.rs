//! The ids of assertions that were used.

use std::collections::HashMap;

use super::expiring_map::ExpiringMap;
use crate::jws::sha256;

/// Maximum number of remembered ids, of those that the operator has configured and of all others. Further ones are refused.
const MAX_IDS: usize = 100_000;

/// Maximum number of remembered ids of a client that has registered itself, so that it cannot take the places of others.
const MAX_IDS_OF_CLIENT: usize = 1_000;

type Hash = [u8; 32];

/// The ids of assertions that were used. Clients that have registered themselves, of which there may be any number, take no places of
/// those that are configured.
#[derive(Debug)]
pub(crate) struct Replays {
    configured: ExpiringMap<Hash, ()>,
    /// The ids with their clients.
    registered: ExpiringMap<Hash, Hash>,
    /// Number of the ids of each client.
    counts: HashMap<Hash, usize>,
}

/// The result of the use of an assertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AssertionUse {
    First,
    /// It was used before.
    Replay,
    /// Its id cannot be remembered.
    Full,
}

impl Replays {
    pub(crate) fn new() -> Self {
        Self { configured: ExpiringMap::new(MAX_IDS), registered: ExpiringMap::new(MAX_IDS), counts: HashMap::new() }
    }

    /// Records an assertion of a configured client or of an issuer until it has expired.
    pub(crate) fn record(&mut self, issuer: &str, jti: &str, until: u64, now: u64) -> AssertionUse {
        record(&mut self.configured, hash_of(issuer, jti), (), until, now)
    }

    /// Records an assertion of a client that has registered itself until it has expired.
    pub(crate) fn record_registered(&mut self, client: &str, jti: &str, until: u64, now: u64) -> AssertionUse {
        while let Some(client) = self.registered.take_expired(now) {
            if let Some(count) = self.counts.get_mut(&client) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&client);
                }
            }
        }
        let (id, client) = (hash_of(client, jti), sha256(client));
        let count = self.counts.get(&client).copied().unwrap_or_default();
        if count >= MAX_IDS_OF_CLIENT && self.registered.get(&id, now).is_none() {
            return AssertionUse::Full;
        }
        let result = record(&mut self.registered, id, client, until, now);
        if result == AssertionUse::First {
            self.counts.insert(client, count + 1);
        }
        result
    }
}

fn hash_of(issuer: &str, jti: &str) -> Hash {
    sha256(format!("{issuer} {jti}"))
}

fn record<V>(ids: &mut ExpiringMap<Hash, V>, id: Hash, value: V, until: u64, now: u64) -> AssertionUse {
    if ids.get(&id, now).is_some() {
        AssertionUse::Replay
    } else if ids.insert_new(id, value, until, now) {
        AssertionUse::First
    } else {
        AssertionUse::Full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registered_client_takes_no_places_of_others() {
        let mut replays = Replays::new();
        let flood = |replays: &mut Replays, now: u64| {
            (0..2 * MAX_IDS_OF_CLIENT)
                .filter(|id| {
                    replays.record_registered("eve", &format!("{now} {id}"), now + 10, now) == AssertionUse::First
                })
                .count()
        };
        assert_eq!(flood(&mut replays, 1), MAX_IDS_OF_CLIENT);
        assert_eq!(replays.record_registered("eve", "1 0", 11, 1), AssertionUse::Replay);
        assert_eq!(replays.record_registered("eve", "new", 11, 1), AssertionUse::Full);
        assert_eq!(replays.record_registered("app", "1 0", 11, 1), AssertionUse::First);
        assert_eq!(flood(&mut replays, 11), MAX_IDS_OF_CLIENT, "expired ids do not count");
        assert_eq!(replays.counts.len(), 1);
    }

    #[test]
    fn registered_clients_take_no_places_of_configured_ones() {
        let mut replays = Replays::new();
        for id in 0..=MAX_IDS {
            let expected = if id < MAX_IDS { AssertionUse::First } else { AssertionUse::Full };
            assert_eq!(replays.record_registered(&format!("eve {}", id / 1_000), &id.to_string(), 10, 1), expected);
        }
        assert_eq!(replays.record("robot", "1", 10, 1), AssertionUse::First);
        assert_eq!(replays.record("robot", "1", 10, 1), AssertionUse::Replay);
        assert_eq!(replays.record_registered("app", "1", 20, 10), AssertionUse::First);
    }
}
