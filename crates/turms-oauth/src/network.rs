//! Classes of IP addresses, and the rules for addresses that a foreign document names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// The class of an IP address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AddressClass {
    /// Reachable from anywhere.
    Public,
    /// Of a local network.
    Private,
    /// Of this machine.
    Loopback,
    /// Link-local, multicast, reserved, or a metadata service of a cloud provider. Never connected to.
    Forbidden,
}

/// The addresses that URLs of foreign documents may lead to.
#[cfg(feature = "fetch")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetworkPolicy {
    /// Public addresses, with HTTPS only.
    Public,
    /// Public addresses with HTTPS, and loopback with or without. For servers on loopback.
    Loopback,
    /// Public addresses with HTTPS, and private and loopback addresses with or without.
    Private,
}

#[cfg(feature = "fetch")]
impl NetworkPolicy {
    /// Returns the policy for documents of a server. Only the host of the URL counts: an address that its name resolves to could
    /// differ each time.
    pub(crate) fn of_server(server: &Url) -> Self {
        if is_loopback(server) { Self::Loopback } else { Self::Public }
    }

    /// Returns `true` if an address may be connected to.
    pub(crate) fn allows(self, ip: IpAddr, is_https: bool) -> bool {
        match (class_of(ip), self) {
            (AddressClass::Public, _) => is_https,
            (AddressClass::Private, Self::Private) => true,
            (AddressClass::Loopback, Self::Private | Self::Loopback) => true,
            _ => false,
        }
    }

    /// Returns `true` if plain HTTP may be used for this URL, as far as its host tells. Its addresses are checked when connecting.
    pub(crate) fn allows_http(self, url: &Url) -> bool {
        match self {
            Self::Public => false,
            Self::Loopback => is_loopback(url),
            Self::Private => true,
        }
    }
}

/// Returns `true` if the host is a loopback address, `localhost`, or a name below it.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
        }
        Some(Host::Ipv4(ip)) => class_of(ip.into()) == AddressClass::Loopback,
        Some(Host::Ipv6(ip)) => class_of(ip.into()) == AddressClass::Loopback,
        None => false,
    }
}

/// Returns the class of an address.
pub(crate) fn class_of(ip: IpAddr) -> AddressClass {
    match ip {
        IpAddr::V4(ip) => class_of_v4(ip),
        IpAddr::V6(ip) => match embedded_v4(ip) {
            Some(ip) => class_of_v4(ip),
            None => class_of_v6(ip),
        },
    }
}

fn class_of_v4(ip: Ipv4Addr) -> AddressClass {
    match ip.octets() {
        // Metadata services outside of the link-local range: Alibaba and Azure.
        [100, 100, 100, 200] | [168, 63, 129, 16] => AddressClass::Forbidden,
        [127, ..] => AddressClass::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => AddressClass::Private,
        // "This network", link-local, protocol assignments, documentation, benchmarks, 6to4 relays, multicast and reserved.
        [0, ..]
        | [169, 254, ..]
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [224..=255, ..] => AddressClass::Forbidden,
        _ => AddressClass::Public,
    }
}

fn class_of_v6(ip: Ipv6Addr) -> AddressClass {
    match ip.segments() {
        _ if ip.is_loopback() => AddressClass::Loopback,
        // Metadata services inside of the unique local range: all services of Amazon, Oracle, Scaleway and Google.
        [0xfd00, 0xec2 | 0xc1, ..] | [0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42] | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] => {
            AddressClass::Forbidden
        }
        [0xfc00..=0xfdff, ..] => AddressClass::Private,
        // Documentation.
        [0x2001, 0xdb8, ..] | [0x3fff, ..] => AddressClass::Forbidden,
        // Protocol assignments, of which none is a server.
        [0x2001, 0..=0x1ff, ..] => AddressClass::Forbidden,
        // Global unicast. All others are link-local, site-local, multicast or reserved.
        [0x2000..=0x3fff, ..] => AddressClass::Public,
        _ => AddressClass::Forbidden,
    }
}

/// Returns the IPv4 address inside of a mapped, compatible, translated (NAT64) or 6to4 address.
fn embedded_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => from(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_their_class() {
        let table = [
            ("8.8.8.8", AddressClass::Public),
            ("172.32.0.1", AddressClass::Public),
            ("100.63.255.255", AddressClass::Public),
            ("2606:4700::1111", AddressClass::Public),
            ("10.1.2.3", AddressClass::Private),
            ("172.16.0.1", AddressClass::Private),
            ("192.168.1.1", AddressClass::Private),
            ("100.64.0.1", AddressClass::Private),
            ("fd12::1", AddressClass::Private),
            ("::ffff:10.0.0.1", AddressClass::Private),
            ("64:ff9b::a00:1", AddressClass::Private),
            ("2002:a00:1::", AddressClass::Private),
            ("127.0.0.1", AddressClass::Loopback),
            ("127.255.0.9", AddressClass::Loopback),
            ("::1", AddressClass::Loopback),
            ("::ffff:127.0.0.1", AddressClass::Loopback),
            ("::127.0.0.1", AddressClass::Loopback),
            ("0.0.0.0", AddressClass::Forbidden),
            ("::", AddressClass::Forbidden),
            ("169.254.169.254", AddressClass::Forbidden),
            ("::ffff:169.254.169.254", AddressClass::Forbidden),
            ("100.100.100.200", AddressClass::Forbidden),
            ("168.63.129.16", AddressClass::Forbidden),
            ("fd00:ec2::254", AddressClass::Forbidden),
            ("fd00:ec2::23", AddressClass::Forbidden),
            ("fd20:ce::254", AddressClass::Forbidden),
            ("fd00:42::42", AddressClass::Forbidden),
            ("fd00:c1::a9fe:a9fe", AddressClass::Forbidden),
            ("224.0.0.1", AddressClass::Forbidden),
            ("255.255.255.255", AddressClass::Forbidden),
            ("192.0.2.1", AddressClass::Forbidden),
            ("fe80::1", AddressClass::Forbidden),
            ("fec0::1", AddressClass::Forbidden),
            ("ff02::1", AddressClass::Forbidden),
            ("2001:db8::1", AddressClass::Forbidden),
        ];
        for (ip, class) in table {
            assert_eq!(class_of(ip.parse().unwrap()), class, "{ip}");
        }
    }

    #[cfg(feature = "fetch")]
    #[test]
    fn policies_are_as_wide_as_the_server() {
        let policy = |url: &str| NetworkPolicy::of_server(&Url::parse(url).unwrap());
        for url in [
            "http://localhost:1/mcp",
            "http://127.0.0.1/",
            "http://[::1]/",
            "http://a.localhost/",
            "http://2130706433/",
        ] {
            assert_eq!(policy(url), NetworkPolicy::Loopback, "{url}");
        }
        for url in ["https://example.com/", "http://10.0.0.1/", "http://localhost.example.com/", "http://server/"] {
            assert_eq!(policy(url), NetworkPolicy::Public, "{url}");
        }
        let [public, private, loopback] = ["8.8.8.8", "10.0.0.1", "127.0.0.1"].map(|ip| ip.parse::<IpAddr>().unwrap());
        assert!(NetworkPolicy::Public.allows(public, true) && !NetworkPolicy::Public.allows(public, false));
        assert!(!NetworkPolicy::Public.allows(private, true) && !NetworkPolicy::Public.allows(loopback, true));
        assert!(NetworkPolicy::Loopback.allows(loopback, false) && !NetworkPolicy::Loopback.allows(private, true));
        assert!(NetworkPolicy::Private.allows(private, false) && !NetworkPolicy::Private.allows(public, false));
    }
}
