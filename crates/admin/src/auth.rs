//! Who may call: addresses, keys and roles.
//!
//! Differences from APISIX: `admin_key_required: false` opens the API to this machine alone, and not to web pages of
//! other sites that the browser of a person on this machine has open: they cannot hide their `Origin`, nor, where their
//! own name leads to this machine, the name in `Host`.

use crate::args::Args;
use crate::{AdminKey, AdminRequest, AdminResponse, AdminSettings, Role};
use serde_json::json;
use std::net::IpAddr;

/// Refuses peers outside `allow_admin`.
pub(crate) fn check_address(settings: &AdminSettings, peer: IpAddr) -> Result<(), AdminResponse> {
    let peer = peer.to_canonical();
    if settings.allow.is_empty() || settings.allow.iter().any(|network| network.contains(&peer)) {
        return Ok(());
    }
    tracing::warn!(%peer, "refused a peer outside allow_admin");
    Err(AdminResponse::error(403, format!("{peer} is not in allow_admin")))
}

/// The name of the caller, for the history; `None` where no key was asked for.
pub(crate) fn check_key(
    settings: &AdminSettings,
    request: &AdminRequest,
    args: &Args,
) -> Result<Option<String>, AdminResponse> {
    if !settings.key_required && is_local(request) {
        return Ok(None);
    }
    let presented =
        args.get("api_key").or_else(|| key_header(request)).or_else(|| request.cookie("x_api_key"));
    let verdict = match presented {
        None => Err("missing apikey"),
        Some(key) => match owner(&settings.keys, key) {
            None => Err("wrong apikey"),
            Some(owner) if owner.role == Role::Viewer && request.method != "GET" => {
                Err("invalid method for role viewer")
            }
            Some(owner) => Ok(owner),
        },
    };
    match verdict {
        Ok(owner) => Ok(Some(owner.name.chars().take(ACTOR_CHARS_MAX).collect())),
        Err(reason) => {
            tracing::warn!(peer = %request.peer, reason, "failed to check token");
            Err(AdminResponse::json(
                401,
                &json!({ "error_msg": "failed to check token", "description": reason }),
            ))
        }
    }
}

/// The key's header. nginx, which APISIX lets take names with underscores, has one variable for both spellings.
fn key_header(request: &AdminRequest) -> Option<&str> {
    request.header("x-api-key").or_else(|| request.header("x_api_key"))
}

/// A name of this many characters fits the store's limit on actors, whatever its characters: 64 x 4 bytes.
const ACTOR_CHARS_MAX: usize = store::limits::ACTOR_BYTES_MAX / 4;

/// Whether the request comes from this machine, and from no other site's page.
fn is_local(request: &AdminRequest) -> bool {
    let own_page = |origin: &str| {
        let host = host_of(origin.split_once("://").map_or("", |(_, authority)| authority));
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    };
    // A name without a dot is this machine's or its network's; no site has one.
    let own_name = |authority: &str| {
        let host = host_of(authority);
        !host.contains('.') || host.ends_with(".localhost") || host.parse::<IpAddr>().is_ok()
    };
    request.peer.to_canonical().is_loopback()
        && request.header("origin").is_none_or(own_page)
        && request.header("host").is_none_or(own_name)
}

/// The host of `host`, `host:port` or `[address]:port`.
fn host_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// Whose key it is. Looks at every key, so that time tells nothing of where it was found.
fn owner<'a>(keys: &'a [AdminKey], presented: &str) -> Option<&'a AdminKey> {
    let mut owner = None;
    for key in keys {
        let same = same(key.key.as_bytes(), presented.as_bytes());
        if same && !key.key.is_empty() && owner.is_none() {
            owner = Some(key);
        }
    }
    owner
}

/// Whether both are equal, in a time that depends on `presented`'s length alone.
fn same(key: &[u8], presented: &[u8]) -> bool {
    let mut difference = key.len() ^ presented.len();
    for (at, byte) in presented.iter().enumerate() {
        let own = key.get(at).copied().unwrap_or_default();
        difference = std::hint::black_box(difference | usize::from(own ^ byte));
    }
    difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_compared_whole() {
        for (key, presented, equal) in [
            ("abc", "abc", true),
            ("abc", "abd", false),
            ("abc", "ab", false),
            ("ab", "abc", false),
            ("", "", true),
        ] {
            assert_eq!(same(key.as_bytes(), presented.as_bytes()), equal, "{key} {presented}");
        }
        let keys = ["", "a"].map(|key| AdminKey { name: key.into(), key: key.into(), role: Role::Admin });
        assert!(owner(&keys, "").is_none(), "an empty key opens nothing");
        assert!(owner(&keys, "a").is_some());
    }
}
