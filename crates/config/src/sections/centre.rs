//! `deployment.role`, `deployment.role_*.config_provider` and `deployment.etcd`.

use document::codes;
use std::path::PathBuf;
use std::time::Duration;

use store::etcd::Endpoint;
use store::file::Format;

use crate::reader::{Field, Section};
use crate::settings::provider::{Etcd, Provider, Role};

/// A word of `config_provider`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Embedded,
    Etcd,
    Yaml,
    Json,
}

/// The role, and where its configuration comes from. `admin` says whether the Admin API is enabled.
pub(super) fn read(deployment: &Section<'_>, admin: bool) -> (Role, Provider) {
    const ROLES: [(&str, Role); 3] = [
        ("traditional", Role::Traditional),
        ("control_plane", Role::ControlPlane),
        ("data_plane", Role::DataPlane),
    ];
    let role = deployment.choice("role", &ROLES, Role::Traditional);
    let (section, words): (_, &[(&str, Word)]) = match role {
        Role::Traditional => ("role_traditional", &WORDS),
        // Who writes a configuration for others needs a place that they share.
        Role::ControlPlane => ("role_control_plane", &[("etcd", Word::Etcd)]),
        Role::DataPlane => ("role_data_plane", &WORDS[1..]),
    };
    let etcd = deployment.section("etcd");
    let named = etcd.field("host").is_some();
    let word = match (deployment.section(section).field("config_provider"), role) {
        (Some(field), _) => word(&field, words),
        // As in APISIX, which knows nothing else: whoever names a cluster means to use it.
        (None, Role::Traditional) if !named => Some(Word::Embedded),
        (None, _) => Some(Word::Etcd),
    };
    let settings = self::etcd(&etcd);
    let provider = match word.unwrap_or(Word::Embedded) {
        Word::Embedded => Provider::Embedded,
        Word::Etcd => Provider::Etcd(settings),
        // A gateway with an Admin API and no store is given its configuration as one document.
        Word::Yaml | Word::Json if role == Role::Traditional && admin => Provider::Standalone,
        Word::Yaml => Provider::File(Format::Yaml),
        Word::Json => Provider::File(Format::Json),
    };
    (role, provider)
}

const WORDS: [(&str, Word); 4] =
    [("embedded", Word::Embedded), ("etcd", Word::Etcd), ("yaml", Word::Yaml), ("json", Word::Json)];

fn word(field: &Field<'_>, words: &[(&str, Word)]) -> Option<Word> {
    if field.text() == Some("xds") {
        return field.fail("configuration over xDS is not built", "use etcd, yaml or json");
    }
    field.choice(words)
}

fn etcd(section: &Section<'_>) -> Etcd {
    let default = Etcd::default();
    let endpoint = |field: Field<'_>| match Endpoint::parse(field.text()?) {
        Ok(endpoint) => Some(endpoint),
        Err(message) => field.fail(message, "write it like http://127.0.0.1:2379"),
    };
    let endpoints = match section.field("host") {
        None => default.endpoints,
        // One address may stand without a list around it.
        Some(field) => match field.value() {
            document::Value::List(_) => {
                let endpoints: Vec<Endpoint> =
                    field.list().unwrap_or_default().into_iter().filter_map(endpoint).collect();
                if field.list().is_some_and(|items| items.is_empty()) {
                    field.fail::<()>(
                        "no member of the cluster is named",
                        "add one, like http://127.0.0.1:2379",
                    );
                }
                endpoints
            }
            _ => endpoint(field).into_iter().collect(),
        },
    };
    let prefix = section.text("prefix").unwrap_or(&default.prefix).trim_end_matches('/').to_owned();
    if let Some(field) = section.field("prefix")
        && (!prefix.starts_with('/') || prefix.len() < 2)
    {
        field.fail::<()>("the prefix must begin with a slash and have a name", "write it like /apisix");
    }
    let timeout = section.duration("timeout", default.timeout).max(Duration::from_millis(100));
    let user = match (section.text("user"), section.text("password")) {
        (Some(user), Some(password)) => Some((user.to_owned(), password.to_owned())),
        _ => None,
    };
    if let (Some(field), None) = (section.field("user").or_else(|| section.field("password")), &user) {
        field.fail_as::<()>(
            codes::MISSING_SETTING,
            "user and password belong together",
            "write both, or neither",
        );
    }
    let tls = section.section("tls");
    let certificate = match (tls.text("cert"), tls.text("key")) {
        (Some(cert), Some(key)) => Some((PathBuf::from(cert), PathBuf::from(key))),
        _ => None,
    };
    if let (Some(field), None) = (tls.field("cert").or_else(|| tls.field("key")), &certificate) {
        field.fail_as::<()>(
            codes::MISSING_SETTING,
            "cert and key belong together",
            "name both files, or neither",
        );
    }
    Etcd {
        endpoints,
        prefix,
        timeout,
        user,
        verify: tls.bool("verify", default.verify),
        certificate,
        server_name: tls.text("sni").map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_text;

    fn settings(text: &str) -> Result<(Role, Provider, bool), String> {
        let keyring = match text.strip_prefix("apisix: {") {
            Some(rest) => format!("apisix: {{data_encryption: {{keyring: []}}, {rest}"),
            None => format!("apisix: {{data_encryption: {{keyring: []}}}}\n{text}"),
        };
        let loaded = read_text("f", &keyring, &|_| None).map_err(|report| report.to_string())?;
        let settings = loaded.settings;
        Ok((settings.role, settings.provider, settings.admin.is_some()))
    }

    #[test]
    fn roles_and_providers_are_apisixs() {
        use Role::{ControlPlane, DataPlane, Traditional};
        let etcd = || Provider::Etcd(Etcd::default());
        for (text, expected) in [
            ("", (Traditional, Provider::Embedded, true)),
            (
                "deployment: {role: traditional, role_traditional: {config_provider: etcd}}",
                (Traditional, etcd(), true),
            ),
            ("deployment: {etcd: {host: ['http://127.0.0.1:2379']}}", (Traditional, etcd(), true)),
            (
                "deployment: {role_traditional: {config_provider: yaml}}",
                (Traditional, Provider::Standalone, true),
            ),
            (
                "apisix: {enable_admin: false}\ndeployment: {role_traditional: {config_provider: yaml}}",
                (Traditional, Provider::File(Format::Yaml), false),
            ),
            (
                "deployment: {role: data_plane, role_data_plane: {config_provider: json}}",
                (DataPlane, Provider::File(Format::Json), false),
            ),
            ("deployment: {role: data_plane}", (DataPlane, etcd(), false)),
            ("deployment: {role: control_plane}", (ControlPlane, etcd(), true)),
        ] {
            assert_eq!(settings(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_can_not_be_is_refused_with_a_hint() {
        for (text, words) in [
            ("deployment: {role: data_plane, role_data_plane: {config_provider: xds}}", "xDS"),
            (
                "deployment: {role: data_plane, role_data_plane: {config_provider: embedded}}",
                "expected one of",
            ),
            (
                "deployment: {role: control_plane, role_control_plane: {config_provider: yaml}}",
                "expected one of",
            ),
            ("deployment: {etcd: {host: ['127.0.0.1:2379']}}", "like http://"),
            ("deployment: {etcd: {host: []}}", "no member"),
            ("deployment: {etcd: {prefix: apisix}}", "begin with a slash"),
            ("deployment: {etcd: {user: a}}", "belong together"),
            ("deployment: {etcd: {tls: {cert: a}}}", "belong together"),
        ] {
            let said = settings(text).unwrap_err();
            assert!(said.contains(words), "{text}: {said}");
        }
    }

    #[test]
    fn a_cluster_without_a_keyring_in_common_stores_secrets_as_they_are_and_says_so() {
        for text in [
            "deployment:\n  etcd:\n    host: ['http://127.0.0.1:2379']\n",
            "deployment:\n  role: data_plane\n",
            "deployment: {role_traditional: {config_provider: etcd}}\n",
        ] {
            let loaded = read_text("f", text, &|_| None).unwrap();
            assert_eq!(loaded.warnings.diagnostics.len(), 1, "{}", loaded.warnings);
            assert!(loaded.warnings.to_string().contains("without encryption"), "{}", loaded.warnings);
            assert_eq!(loaded.settings.data_encryption.keyring, Some(Vec::new()));
            let common = format!("apisix: {{data_encryption: {{keyring: [0123456789abcdef]}}}}\n{text}");
            let loaded = read_text("f", &common, &|_| None).unwrap();
            assert!(loaded.warnings.diagnostics.is_empty(), "{}", loaded.warnings);
        }
        assert_eq!(read_text("f", "", &|_| None).unwrap().settings.data_encryption.keyring, None);
        // One mistake of a member is one line.
        let said = settings("deployment: {etcd: {host: ['127.0.0.1:2379']}}").unwrap_err();
        assert_eq!(said.matches("f:").count(), 1, "{said}");
    }

    #[test]
    fn a_cluster_is_read_as_apisix_writes_it() {
        let text = "deployment:\n  etcd:\n    host: ['https://a:2379', 'https://b:2379']\n    prefix: /gw/\n    \
                    timeout: 5\n    user: u\n    password: p\n    tls: {verify: false, cert: c.pem, key: k.pem, sni: etcd}\n";
        let Ok((_, Provider::Etcd(etcd), _)) = settings(text) else { panic!() };
        assert_eq!(etcd.endpoints.len(), 2);
        assert_eq!((etcd.prefix.as_str(), etcd.timeout), ("/gw", Duration::from_secs(5)));
        assert_eq!((etcd.verify, etcd.server_name.as_deref()), (false, Some("etcd")));
        assert!(!format!("{etcd:?}").contains("\"p\""));
    }
}
