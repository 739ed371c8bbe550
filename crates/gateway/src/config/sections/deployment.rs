//! `deployment.admin`: the Admin API.

use std::net::SocketAddr;

use super::listening::Ports;
use crate::config::Reach;
use crate::config::read::{Field, Section};
use crate::config::settings::{Admin, AdminKey, AdminRole, AdminVersion};

/// The Admin API's settings; `None` where it is turned off. All the same its section is checked.
pub(super) fn read<'a>(
    deployment: &Section<'a>,
    enabled: bool,
    reach: Reach,
    ports: &mut Ports<'a>,
) -> Option<Admin> {
    let section = deployment.section("admin");
    let (listen, listen_field) = section.section("admin_listen").address(Admin::default().listen);
    let admin = admin(&section, listen, reach);
    if !enabled {
        return None;
    }
    ports.claim("the Admin API", listen, listen_field);
    Some(admin)
}

fn admin(section: &Section<'_>, listen: SocketAddr, reach: Reach) -> Admin {
    let default = Admin::default();
    if let Some(https) = section.field("https_admin")
        && https.bool() == Some(true)
    {
        https.fail::<()>(
            "TLS for the Admin API is not built yet, and it is not served in the clear where TLS was asked for",
            "remove the key and keep the Admin API on a loopback address",
        );
    }
    let key_required = section.bool("admin_key_required", default.key_required);
    if let Some(field) = section.field("admin_key_required")
        && !key_required
        && !listen.ip().is_loopback()
    {
        field.warn(
            "without keys the Admin API answers clients on this machine alone",
            "configure admin_key to reach it from elsewhere",
        );
    }
    // APISIX takes everything but v3 for v2, and its own tests write `default`.
    let versions = [("v3", AdminVersion::V3), ("v2", AdminVersion::V2), ("default", AdminVersion::V2)];
    Admin {
        listen,
        on_data_ports: false,
        key_required,
        keys: section
            .list("admin_key")
            .unwrap_or_default()
            .iter()
            .filter_map(|item| admin_key(item, listen, reach))
            .collect(),
        allow: match section.list("allow_admin") {
            Some(items) => items.iter().filter_map(Field::network).collect(),
            None if section.is_emptied("allow_admin") => Vec::new(),
            None => default.allow,
        },
        version: section.choice("admin_api_version", &versions, default.version),
        cors: section.bool("enable_admin_cors", default.cors),
        streams: default.streams,
    }
}

/// An entry of `admin_key`; `None` for one whose key is empty, which asks for a generated key.
fn admin_key(item: &Field<'_>, listen: SocketAddr, reach: Reach) -> Option<AdminKey> {
    let section = item.as_section();
    let roles = [("admin", AdminRole::Admin), ("viewer", AdminRole::Viewer)];
    let role = section.choice("role", &roles, AdminRole::Admin);
    let name = section.text("name").unwrap_or("admin").to_owned();
    let Some(field) = section.field("key") else {
        return match role {
            AdminRole::Admin => None,
            AdminRole::Viewer => item.fail("a viewer needs a key", "add key:, or remove the entry"),
        };
    };
    let key = field.text()?;
    if key.is_empty() {
        return match role {
            AdminRole::Admin => None,
            AdminRole::Viewer => {
                field.fail("a viewer's key must not be empty", "write a key, or remove the entry")
            }
        };
    }
    if reach == Reach::Anyone && admin::is_well_known(key) {
        const HINT: &str = "write a key of your own, or leave it empty to have one generated";
        if !listen.ip().is_loopback() {
            let message = format!(
                "this key stands in public examples: everybody knows it, and whoever reaches {listen} would own the \
                 gateway"
            );
            return field.fail(message, format!("{HINT}; on a loopback address the key is taken"));
        }
        let message =
            "this key stands in public examples: whoever has an account on this machine owns the gateway";
        field.warn(message, HINT);
    }
    Some(AdminKey { name, key: key.to_owned(), role })
}
