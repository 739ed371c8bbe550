//! `deployment.admin`: the Admin API.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::listening::Ports;
use crate::Reach;
use crate::reader::{Field, Section};
use crate::settings::{Admin, AdminKey, AdminRole, AdminTls, AdminVersion};
use document::codes;

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
    let key_required = section.bool("admin_key_required", default.key_required);
    if let Some(field) = section.field("admin_key_required").filter(|_| !key_required) {
        if listen.ip().is_loopback() {
            field.warn(
                codes::INSECURE_SETTING,
                "everybody on this machine may change the configuration without a key",
                "remove the key, and send X-API-KEY; the key is kept in admin.key where none is configured",
            );
        } else {
            field.warn(
                codes::INSECURE_SETTING,
                "without keys the Admin API answers clients on this machine alone",
                "configure admin_key to reach it from elsewhere",
            );
        }
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
        tls: tls(section),
    }
}

/// `https_admin` with the files of `admin_api_mtls`.
fn tls(section: &Section<'_>) -> Option<AdminTls> {
    let files = section.section("admin_api_mtls");
    // APISIX's examples leave what is not used empty.
    let file = |key: &str| files.text(key).filter(|path| !path.is_empty()).map(PathBuf::from);
    let (cert, key) = (file("admin_ssl_cert"), file("admin_ssl_cert_key"));
    let client_ca = file("admin_ssl_ca_cert");
    let https = section.field("https_admin");
    if !https.as_ref().and_then(Field::bool).unwrap_or(false) {
        if let (Some(field), true) = (section.field("admin_api_mtls"), cert.is_some() || client_ca.is_some())
        {
            field.warn(
                codes::NO_EFFECT,
                "without effect: the Admin API is not encrypted and asks nobody for a certificate",
                "write https_admin: true beside it",
            );
        }
        return None;
    }
    match (cert, key, https) {
        (Some(cert), Some(key), _) => Some(AdminTls { cert, key, client_ca }),
        (_, _, https) => https?.fail_as(
            codes::MISSING_SETTING,
            "HTTPS for the Admin API needs a certificate and its key",
            "name both files: admin_api_mtls.admin_ssl_cert and admin_api_mtls.admin_ssl_cert_key",
        ),
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
            AdminRole::Viewer => {
                item.fail_as(codes::MISSING_SETTING, "a viewer needs a key", "add key:, or remove the entry")
            }
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
    if reach == Reach::Anyone && secrets::is_well_known_admin_key(key) {
        const HINT: &str = "write a key of your own, or leave it empty to have one generated";
        if !listen.ip().is_loopback() {
            let message = format!(
                "this key stands in public examples: everybody knows it, and whoever reaches {listen} would own the \
                 gateway"
            );
            return field.fail_as(
                codes::INSECURE_SETTING,
                message,
                format!("{HINT}; on a loopback address the key is accepted"),
            );
        }
        let message =
            "this key stands in public examples: whoever has an account on this machine owns the gateway";
        field.warn(codes::INSECURE_SETTING, message, HINT);
    }
    Some(AdminKey { name, key: key.to_owned(), role })
}
