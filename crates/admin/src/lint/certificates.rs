//! `certificate-expired`, `certificate-expires`, `certificate-not-yet-valid`.

use super::scene::{Item, Scene};
use document::diagnostic::Code;
use document::{Diagnostic, Severity, codes};
use model::Kind;
use serde_json::Value;
use tls::Validity;

const EXPIRED: (Code, Severity) = (codes::CERTIFICATE_EXPIRED, Severity::Error);
const EXPIRES: (Code, Severity) = (codes::CERTIFICATE_EXPIRES, Severity::Warning);
const EARLY: (Code, Severity) = (codes::CERTIFICATE_NOT_YET_VALID, Severity::Error);

/// Days before its end from which a certificate is found: what renews them does so a month ahead.
const SOON_DAYS: i64 = 30;

pub(super) fn check(scene: &Scene<'_>, found: &mut Vec<Diagnostic>) {
    for item in scene.items() {
        let mut pems: Vec<(String, &Value)> = Vec::new();
        if item.kind == Kind::Ssl && item.is_on() {
            pems.extend(item.fields.get("cert").map(|pem| ("/cert".to_owned(), pem)));
            let more = item.fields.get("certs").and_then(Value::as_array).into_iter().flatten();
            pems.extend(more.enumerate().map(|(at, pem)| (format!("/certs/{at}"), pem)));
            let ca = item.fields.get("client").and_then(|client| client.get("ca"));
            pems.extend(ca.map(|pem| ("/client/ca".to_owned(), pem)));
        }
        for pointer in ["/tls/client_cert", "/upstream/tls/client_cert"] {
            let mut parts = pointer[1..].split('/');
            let first = parts.next().and_then(|name| item.fields.get(name));
            let pem = parts.fold(first, |value, name| value?.get(name));
            pems.extend(pem.map(|pem| (pointer.to_owned(), pem)));
        }
        for (path, pem) in pems {
            if path == "/client/ca" && pem.as_str().is_some_and(tls::has_version_1) {
                found.push(crate::validate::certificates::version_1(&path).resource(item.key));
            }
            let validity = pem.as_str().and_then(Validity::of_chain);
            found.extend(validity.and_then(|validity| judge(scene.now_s, item, path, validity)));
        }
    }
}

fn judge(now_s: i64, item: &Item<'_>, path: String, validity: Validity) -> Option<Diagnostic> {
    let days = |seconds: i64| seconds.div_euclid(86_400);
    let left = validity.not_after.saturating_sub(now_s);
    let advice = "renew it, and write the new one and its key here";
    if left < 0 {
        let message = format!("it has been invalid for {} days: clients refuse it", days(-left));
        return Some(item.finding(EXPIRED, path, message, advice));
    }
    if validity.not_before > now_s {
        let message =
            format!("it becomes valid in {} days: clients refuse it", days(validity.not_before - now_s));
        return Some(item.finding(EARLY, path, message, "keep the former one until then, or set the clock"));
    }
    if days(left) < SOON_DAYS {
        return Some(item.finding(EXPIRES, path, format!("it expires in {} days", days(left)), advice));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::lint;
    use super::*;
    use crate::Resource;
    use plugin::Registry;
    use serde_json::json;

    /// A certificate of a.com, valid for twenty years.
    const PEM: &str = include_str!("fixture.pem");

    #[test]
    fn the_time_decides() {
        let registry = Registry::default();
        let ssl = json!({"cert": PEM, "snis": ["a.com"]});
        let resources = [Resource { key: "/ssls/1".into(), fields: ssl.as_object().unwrap().clone() }];
        let validity = Validity::of_chain(PEM).unwrap();
        for (now, rule) in [
            (validity.not_before - 1, Some(EARLY)),
            (validity.not_before, None),
            (validity.not_after - 31 * 86_400, None),
            (validity.not_after - 29 * 86_400, Some(EXPIRES)),
            (validity.not_after + 1, Some(EXPIRED)),
        ] {
            let found = lint(&registry, &resources, now);
            let rules: Vec<_> = found.iter().map(|finding| (finding.code, finding.severity)).collect();
            assert_eq!(rules, rule.into_iter().collect::<Vec<_>>(), "{now}");
            assert!(found.iter().all(|finding| finding.path == "/cert"));
        }
    }

    #[test]
    fn an_authority_of_version_1_is_found() {
        const OLD: &str = include_str!("fixture-v1.pem");
        let registry = Registry::default();
        for (ca, expected) in [(OLD, Some(codes::OLD_CERTIFICATE)), (PEM, None)] {
            let ssl = json!({"cert": PEM, "snis": ["a.com"], "client": {"ca": ca}});
            let resources = [Resource { key: "/ssls/1".into(), fields: ssl.as_object().unwrap().clone() }];
            let now =
                Validity::of_chain(PEM).unwrap().not_before.max(Validity::of_chain(OLD).unwrap().not_before);
            let found = lint(&registry, &resources, now);
            assert_eq!(found.first().map(|finding| finding.code), expected, "{found:?}");
            assert!(
                found
                    .iter()
                    .all(|finding| finding.path == "/client/ca" && finding.severity == Severity::Warning)
            );
        }
    }
}
