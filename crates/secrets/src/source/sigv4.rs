//! AWS Signature Version 4 of a request.

use ring::{digest, hmac};
use std::fmt::Write as _;

/// Who signs, and for which service.
pub struct Credentials<'a> {
    /// The id of the access key.
    pub access_key_id: &'a str,
    /// The secret of the access key.
    pub secret_access_key: &'a str,
    /// The region: `us-east-1`.
    pub region: &'a str,
    /// The service: `execute-api`.
    pub service: &'a str,
}

/// The header fields that signing adds.
pub struct Signed {
    /// `X-Amz-Date`
    pub date: String,
    /// `Authorization`
    pub authorization: String,
}

/// Signs a request at `now`, in seconds since 1970. `path` and `query` are canonical: encoded, and the query's arguments
/// sorted. `headers` have lower case names and trimmed values; all are signed.
pub fn sign(
    credentials: &Credentials<'_>,
    now: u64,
    method: &str,
    (path, query): (&str, &str),
    headers: &[(&str, String)],
    body: &[u8],
) -> Signed {
    let date = timestamp(now);
    let day = &date[..8];
    let mut headers: Vec<(&str, &str)> =
        headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    headers.push(("x-amz-date", &date));
    headers.sort_unstable();
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let request = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{}", sha256(body));
    let scope = format!("{day}/{}/{}/aws4_request", credentials.region, credentials.service);
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", sha256(request.as_bytes()));
    let secret = format!("AWS4{}", credentials.secret_access_key);
    let parts = [day, credentials.region, credentials.service, "aws4_request"];
    let key = parts.iter().fold(secret.into_bytes(), |key, part| mac(&key, part.as_bytes()));
    let signature = hex(&mac(&key, text.as_bytes()));
    let id = credentials.access_key_id;
    let authorization =
        format!("AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}");
    Signed { date, authorization }
}

fn mac(key: &[u8], data: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data).as_ref().to_vec()
}

fn sha256(data: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, data).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string doesn't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// `20150830T123600Z`
fn timestamp(now: u64) -> String {
    let (days, second) = (now / 86_400, now % 86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// The Gregorian date of a day since 1970, by counting in eras of 400 years that begin on 1 March.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 30 August 2015, 12:36:00 UTC: the moment of AWS's published test suite.
    const MOMENT: u64 = 1_440_938_160;

    #[test]
    fn signatures_are_those_of_the_published_test_suite() {
        let credentials = Credentials {
            access_key_id: "AKIDEXAMPLE",
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
            region: "us-east-1",
            service: "service",
        };
        let host = ("host", "example.amazonaws.com".to_owned());
        let form = ("content-type", "application/x-www-form-urlencoded".to_owned());
        for (name, method, query, headers, body, signature) in [
            (
                "get-vanilla-query-order-key-case",
                "GET",
                "Param1=value1&Param2=value2",
                vec![host.clone()],
                "",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                "get-vanilla",
                "GET",
                "",
                vec![host.clone()],
                "",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "post-vanilla",
                "POST",
                "",
                vec![host.clone()],
                "",
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "post-x-www-form-urlencoded",
                "POST",
                "",
                vec![form, host.clone()],
                "Param1=value1",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
        ] {
            let signed = sign(&credentials, MOMENT, method, ("/", query), &headers, body.as_bytes());
            assert_eq!(signed.date, "20150830T123600Z");
            assert!(
                signed.authorization.ends_with(&format!("Signature={signature}")),
                "{name}: {}",
                signed.authorization
            );
        }
    }

    #[test]
    fn dates_are_of_the_calendar() {
        for (seconds, expected) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (4_107_542_400, "21000301T000000Z"),
            (1_767_225_599, "20251231T235959Z"),
        ] {
            assert_eq!(timestamp(seconds), expected);
        }
    }
}
