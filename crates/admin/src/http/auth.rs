//! Who may call: addresses, keys, roles and web pages.
//!
//! Differences from APISIX:
//! - `admin_key_required: false` opens the API to this machine alone.
//! - A published key is accepted in the `X-API-KEY` header alone. Requests with it, and requests without a key where none
//!   is required, are refused if a web page sent them or if `Host` is no loopback address: see [`crate::http::origin`].
//! - Requests to the API on the data port are refused if their page is of another origin or `Host` is no loopback address,
//!   whatever the key.
//! - With a key of one's own, a page of another origin is refused unless `enable_admin_cors` is on, and always where the
//!   browser adds the key by itself, in a cookie.

use crate::http::args::Args;
use crate::http::origin::{Page, foreign_host, foreign_page};
use crate::{AdminKey, AdminRequest, AdminResponse, AdminSettings, Role, is_well_known};
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

/// Refuses what no key can allow: a request to the data port from a page of another origin or for a foreign `Host`, and
/// a preflight request from another origin where CORS is off.
pub(crate) fn check_sender(settings: &AdminSettings, request: &AdminRequest) -> Result<(), AdminResponse> {
    let sender = request.sender();
    if request.on_data_port && !sender.names_loopback() {
        return refuse(request, foreign_host());
    }
    let preflight = request.method == "OPTIONS" && !settings.answers_cors(request);
    if (request.on_data_port || preflight) && sender.page() == Page::Foreign {
        return refuse(request, foreign_page());
    }
    Ok(())
}

/// The name of the caller, for the history; `None` where no key was asked for.
pub(crate) fn check_key(
    settings: &AdminSettings,
    request: &AdminRequest,
    args: &Args,
) -> Result<Option<String>, AdminResponse> {
    let presented = presented(request, args);
    if !settings.key_required && request.peer.to_canonical().is_loopback() {
        // Off the data port, a page of the API's own origin is the API's own.
        match check_open(request, !request.on_data_port) {
            Ok(()) => return Ok(None),
            Err(refusal) if presented.is_none() => return Err(refusal),
            Err(_) => {}
        }
    }
    let verdict = match &presented {
        None => Err("missing apikey"),
        Some((key, place)) => match owner(&settings.keys, key) {
            None => Err("wrong apikey"),
            Some(owner) if is_well_known(&owner.key) && *place != Place::ApiKeyHeader => {
                Err("this key is published: it is accepted in the X-API-KEY header only")
            }
            Some(owner) if owner.role == Role::Viewer && request.method != "GET" => {
                Err("invalid method for role viewer")
            }
            Some(owner) => Ok((owner, *place)),
        },
    };
    match verdict {
        Ok((owner, place)) => {
            check_page(settings, request, owner, place)?;
            Ok(Some(owner.name.chars().take(ACTOR_CHARS_MAX).collect()))
        }
        Err(reason) => {
            tracing::warn!(peer = %request.peer, reason, "failed to check token");
            Err(AdminResponse::json(
                401,
                &json!({ "error_msg": "failed to check token", "description": reason }),
            ))
        }
    }
}

/// Where a request carries its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// `X-API-KEY`: no page can send it to another origin without a preflight.
    ApiKeyHeader,
    /// `X_API_KEY`, which nginx, where APISIX lets it take underscores, has one variable with `X-API-KEY` for.
    UnderscoredHeader,
    /// The argument `api_key`.
    Query,
    /// The cookie `x_api_key`: a browser adds it to the requests of every page.
    Cookie,
}

/// The key that a request carries, in APISIX's order of places.
fn presented<'r>(request: &'r AdminRequest, args: &'r Args) -> Option<(&'r str, Place)> {
    let of = |key: Option<&'r str>, place| key.map(|key| (key, place));
    of(args.get("api_key"), Place::Query)
        .or_else(|| of(request.header("x-api-key"), Place::ApiKeyHeader))
        .or_else(|| of(request.header("x_api_key"), Place::UnderscoredHeader))
        .or_else(|| of(request.cookie("x_api_key"), Place::Cookie))
}

/// Refuses a request that a web page sent where this key doesn't allow it.
fn check_page(
    settings: &AdminSettings,
    request: &AdminRequest,
    owner: &AdminKey,
    place: Place,
) -> Result<(), AdminResponse> {
    let sender = request.sender();
    if is_well_known(&owner.key) {
        return check_open(request, false);
    }
    let foreign = match place {
        // Sites that the gateway proxies have the data port's origin as well.
        Place::Cookie if request.on_data_port => sender.page() != Page::None,
        Place::Cookie => sender.page() == Page::Foreign,
        _ => sender.has_foreign_origin() && !settings.answers_cors(request),
    };
    if foreign { refuse(request, foreign_page()) } else { Ok(()) }
}

/// Refuses a request with a published key or without a key if a web page can have sent it, but for `own_pages`, those of
/// the API's origin.
fn check_open(request: &AdminRequest, own_pages: bool) -> Result<(), AdminResponse> {
    let sender = request.sender();
    if !sender.names_loopback() {
        return refuse(request, foreign_host());
    }
    match sender.page() {
        Page::None => Ok(()),
        Page::Own if own_pages => Ok(()),
        Page::Own | Page::Foreign => refuse(request, foreign_page()),
    }
}

fn refuse(request: &AdminRequest, refusal: AdminResponse) -> Result<(), AdminResponse> {
    let shown =
        |name| request.header(name).map(|value| value.chars().take(SHOWN_CHARS_MAX).collect::<String>());
    let (host, origin) = (shown("host"), shown("origin"));
    tracing::warn!(peer = %request.peer, ?host, ?origin, "refused a request of a web page to the Admin API");
    Err(refusal)
}

/// Characters of a header field that are logged: names of hosts have at most 253, with scheme and port 267.
const SHOWN_CHARS_MAX: usize = 267;

/// A name of this many characters fits the store's limit on actors, whatever its characters: 64 x 4 bytes.
const ACTOR_CHARS_MAX: usize = store::limits::ACTOR_BYTES_MAX / 4;

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
