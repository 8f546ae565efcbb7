//! Addresses: comparison by their parts, and removal of passwords.
//!
//! The parser is that of the HTTP client, so the compared parts are those that the client connects
//! to.

use std::net::IpAddr;

use ureq::http::Uri;

/// Scheme, lowercase host, and port.
fn origin(uri: &Uri) -> Option<(&str, String, u16)> {
    let scheme = uri.scheme_str()?;
    let usual = match scheme {
        "https" => Some(443),
        "http" => Some(80),
        _ => None,
    };
    Some((scheme, uri.host()?.to_ascii_lowercase(), uri.port_u16().or(usual)?))
}

/// Path and query of `address` relative to the path of `base`, if both have the same scheme, host
/// and port.
pub fn below(address: &str, base: &str) -> Option<String> {
    let (address, base): (Uri, Uri) = (address.parse().ok()?, base.parse().ok()?);
    if origin(&address)? != origin(&base)? {
        return None;
    }
    let rest =
        address.path_and_query()?.as_str().strip_prefix(base.path().trim_end_matches('/'))?;
    rest.starts_with('/').then(|| rest.to_owned())
}

/// Returns `true` if requests to `address` cannot be intercepted: with `https`, or to this machine.
pub fn is_private(address: &str) -> bool {
    let Ok(uri) = address.parse::<Uri>() else { return false };
    match origin(&uri) {
        Some(("https", ..)) => true,
        Some((_, host, _)) => {
            let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
            host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
        }
        None => false,
    }
}

/// Address without user name and password, which the HTTP client does not use.
pub fn without_login(address: &str) -> String {
    let login = address.split_once("://").and_then(|(scheme, rest)| {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (_, host) = rest[..end].rsplit_once('@')?;
        Some(format!("{scheme}://{host}{}", &rest[end..]))
    });
    login.unwrap_or_else(|| address.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_host_and_port_decide_what_is_below() {
        let hub = "https://huggingface.co";
        let rest = |address: &str| below(address, hub);
        let found = Some("/api?p=2".to_owned());
        assert_eq!(rest("https://huggingface.co/api?p=2"), found);
        assert_eq!(rest("https://HuggingFace.co:443/api?p=2"), found);
        for other in [
            "https://huggingface.co.evil.example/api",
            "https://huggingface.co@evil.example/api",
            "https://huggingface.co:8443/api",
            "http://huggingface.co/api",
            "//huggingface.co/api",
            "/api",
            "not an address",
        ] {
            assert_eq!(rest(other), None, "{other}");
        }
        assert_eq!(below("http://mirror/hf/api", "http://mirror/hf/"), Some("/api".into()));
        assert_eq!(below("http://mirror/hf-other/api", "http://mirror/hf"), None);
    }

    #[test]
    fn encrypted_and_local_addresses_are_private() {
        for address in
            ["https://a.example", "http://localhost:80/a", "http://127.0.0.2", "http://[::1]/"]
        {
            assert!(is_private(address), "{address}");
        }
        for address in
            ["http://a.example", "http://localhost.example", "http://127.0.0.1.example", "a"]
        {
            assert!(!is_private(address), "{address}");
        }
    }

    #[test]
    fn logins_are_left_out() {
        for (address, expected) in [
            ("https://me:secret@a.example:8/b@c?d=e@f", "https://a.example:8/b@c?d=e@f"),
            ("https://p@ss@a.example", "https://a.example"),
            ("https://a.example/b@c", "https://a.example/b@c"),
            ("no address", "no address"),
        ] {
            assert_eq!(without_login(address), expected);
        }
    }
}
