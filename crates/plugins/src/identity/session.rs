//! Sessions that live in the client's cookies, encrypted and authenticated: no server keeps anything.
//!
//! A cookie holds `base64url(version, creation, nonce, ciphertext, tag)` with AES-256-GCM, of a compressed text; its name is
//! authenticated along with it, so a session of one plugin is none of another's. What is too long for one cookie continues
//! in `name2`.

use super::cookies::{CookieAttributes, cleared, set_cookie};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use plugin::{HeaderEdits, Request};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Map, Value};

/// Bytes of a cookie's value. Browsers keep 4096 bytes of name, value and attributes (RFC 6265 section 6.1).
const CHUNK_BYTES: usize = 3500;

/// Cookies that one session may take. A client sends them in one line, of which the gateway takes 8 KiB: 7,000 bytes leave
/// the rest to names and to other cookies. A longer session would lock its client out.
const CHUNKS_MAX: usize = 2;

/// The form of what is encrypted.
const VERSION: u8 = 1;

/// What is before the ciphertext: version, creation in seconds since 1970, nonce.
const HEAD_BYTES: usize = 1 + 8 + NONCE_LEN;

/// A session's content.
pub(crate) type Session = Map<String, Value>;

/// The sessions of one configuration.
pub(crate) struct Sessions {
    name: String,
    /// The first encrypts; all decrypt, so that secrets can be changed.
    keys: Vec<LessSafeKey>,
    /// Seconds for which a session is valid.
    lifetime_s: u64,
    attributes: CookieAttributes,
    random: SystemRandom,
}

impl Sessions {
    /// Sessions in cookies called `name`, encrypted with what is derived from the first of `secrets`.
    pub(crate) fn new<S: AsRef<str>>(
        name: impl Into<String>,
        secrets: impl IntoIterator<Item = S>,
        lifetime_s: u64,
        attributes: CookieAttributes,
    ) -> Self {
        let name = name.into();
        let keys =
            secrets.into_iter().filter_map(|secret| derived(secret.as_ref().as_bytes(), &name)).collect();
        Self { name, keys, lifetime_s, attributes, random: SystemRandom::new() }
    }

    /// The session that `request` shows, and when it was made; `None` where it shows none, or one that is too old or not
    /// of this configuration.
    pub(crate) fn read(&self, request: &Request<'_>, now_s: u64) -> Option<(Session, u64)> {
        let mut text = request.cookie(self.name.as_bytes())?.to_vec();
        for number in 2..=CHUNKS_MAX {
            match request.cookie(self.chunk(number).as_bytes()) {
                Some(chunk) if text.len() == (number - 1) * CHUNK_BYTES => text.extend_from_slice(chunk),
                _ => break,
            }
        }
        self.open(&text, now_s)
    }

    /// The session that [`Self::seal`] made a text of, and when it was made.
    pub(crate) fn open(&self, text: &[u8], now_s: u64) -> Option<(Session, u64)> {
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (head, ciphertext) = sealed.split_at_checked(HEAD_BYTES)?;
        let made_s = u64::from_be_bytes(head[1..9].try_into().ok()?);
        if head[0] != VERSION
            || made_s > now_s.saturating_add(60)
            || now_s >= made_s.saturating_add(self.lifetime_s)
        {
            return None;
        }
        let content = self.keys.iter().find_map(|key| {
            let nonce = Nonce::try_assume_unique_for_key(&head[9..]).ok()?;
            let mut buffer = ciphertext.to_vec();
            let length = key.open_in_place(nonce, self.authenticated(head), &mut buffer).ok()?.len();
            buffer.truncate(length);
            Some(buffer)
        })?;
        match serde_json::from_reader(DeflateDecoder::new(&*content)) {
            Ok(Value::Object(session)) => Some((session, made_s)),
            _ => None,
        }
    }

    /// Has the client keep `session`, made at `made_s`; `false` where it is too long for cookies.
    pub(crate) fn write(
        &self,
        session: &Session,
        made_s: u64,
        secure: bool,
        request: &Request<'_>,
        fields: &mut HeaderEdits,
    ) -> bool {
        let Some(text) = self.seal(session, made_s) else { return false };
        let attributes = self.attributes(secure);
        let chunks: Vec<&str> =
            text.as_bytes().chunks(CHUNK_BYTES).filter_map(|chunk| std::str::from_utf8(chunk).ok()).collect();
        if chunks.len() > CHUNKS_MAX {
            return false;
        }
        for (at, chunk) in chunks.iter().enumerate() {
            fields.append(
                "Set-Cookie",
                set_cookie(&self.chunk(at + 1), chunk, &attributes, Some(self.lifetime_s)),
            );
        }
        self.clear_from(chunks.len() + 1, &attributes, request, fields);
        true
    }

    /// Has the client forget its session.
    pub(crate) fn clear(&self, secure: bool, request: &Request<'_>, fields: &mut HeaderEdits) {
        self.clear_from(1, &self.attributes(secure), request, fields);
    }

    /// The cookies' name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn clear_from(
        &self,
        first: usize,
        attributes: &CookieAttributes,
        request: &Request<'_>,
        fields: &mut HeaderEdits,
    ) {
        for name in (first..=CHUNKS_MAX).map(|number| self.chunk(number)) {
            if request.cookie(name.as_bytes()).is_some() {
                fields.append("Set-Cookie", cleared(&name, attributes));
            }
        }
    }

    fn attributes(&self, secure: bool) -> CookieAttributes {
        let attributes = self.attributes.clone();
        CookieAttributes { secure: attributes.secure || secure, ..attributes }
    }

    /// Encrypts `session`; `None` where the system has no random bytes.
    pub(crate) fn seal(&self, session: &Session, made_s: u64) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).ok()?;
        let mut sealed = vec![VERSION];
        sealed.extend_from_slice(&made_s.to_be_bytes());
        sealed.extend_from_slice(&nonce);
        let mut deflated = DeflateEncoder::new(Vec::new(), Compression::default());
        serde_json::to_writer(&mut deflated, session).ok()?;
        let mut content = deflated.finish().ok()?;
        let key = self.keys.first()?;
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(nonce, self.authenticated(&sealed), &mut content).ok()?;
        sealed.append(&mut content);
        Some(URL_SAFE_NO_PAD.encode(sealed))
    }

    fn authenticated(&self, head: &[u8]) -> Aad<Vec<u8>> {
        Aad::from([head, self.name.as_bytes()].concat())
    }

    fn chunk(&self, number: usize) -> String {
        if number == 1 { self.name.clone() } else { format!("{}{number}", self.name) }
    }
}

/// The key of sessions called `name`.
fn derived(secret: &[u8], name: &str) -> Option<LessSafeKey> {
    let pseudo_random = Salt::new(HKDF_SHA256, b"tidegate session").extract(secret);
    let info = [name.as_bytes()];
    let material = pseudo_random.expand(&info, &AES_256_GCM).ok()?;
    Some(LessSafeKey::new(UnboundKey::from(material)))
}

/// A text of 256 random bits that nobody can guess; `None` where the system has none.
pub(crate) fn random_text() -> Option<String> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plugin::testkit::{self, Bench};
    use serde_json::json;

    fn sessions(name: &str, secrets: &[&str]) -> Sessions {
        Sessions::new(name, secrets.iter().copied(), 3600, CookieAttributes::default())
    }

    fn session(length: usize) -> Session {
        let Value::Object(session) = json!({"user": "u".repeat(length)}) else { unreachable!() };
        session
    }

    /// The cookies that `sessions` sets for `session`, as a client sends them.
    fn cookies(sessions: &Sessions, session: &Session, made_s: u64) -> Option<String> {
        let bench = Bench::new("GET /");
        let exchange = bench.exchange();
        let written = sessions.write(session, made_s, false, &exchange.request, exchange.reply_headers);
        let lines = testkit::lines(exchange.reply_headers);
        let pairs = lines.lines().map(|line| {
            let cookie = line.strip_prefix("Set-Cookie: ").expect("a cookie");
            cookie.split(';').next().expect("its pair").to_owned()
        });
        written.then(|| pairs.collect::<Vec<_>>().join("; "))
    }

    fn read(sessions: &Sessions, cookies: &str, now_s: u64) -> Option<Session> {
        let bench = Bench::new(&format!("GET /\nCookie: {cookies}"));
        sessions.read(&bench.exchange().request, now_s).map(|(session, _)| session)
    }

    #[test]
    fn a_session_is_read_with_its_own_name_and_secret_while_it_lasts() {
        let own = sessions("s", &["secret"]);
        let text = cookies(&own, &session(5), 1000).expect("short");
        assert_eq!(read(&own, &text, 1000), Some(session(5)));
        assert_eq!(
            read(&sessions("s", &["new", "secret"]), &text, 1000),
            Some(session(5)),
            "a changed secret"
        );
        assert_eq!(read(&own, &text, 1000 + 3599), Some(session(5)));
        assert_eq!(read(&own, &text, 1000 + 3600), None, "over");
        assert_eq!(read(&own, &text, 900), None, "from the future");
        assert_eq!(read(&sessions("s", &["other"]), &text, 1000), None);
        assert_eq!(read(&sessions("t", &["secret"]), &text.replacen('s', "t", 1), 1000), None);
        let (_, value) = text.split_once('=').expect("a pair");
        for at in [0, 5, 20, value.len() - 1] {
            let mut changed = value.as_bytes().to_vec();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("ASCII");
            assert_eq!(read(&own, &format!("s={changed}"), 1000), None, "byte {at}");
        }
        for nonsense in ["s=", "s=AQ", "s=%%%", "t=x"] {
            assert_eq!(read(&own, nonsense, 1000), None);
        }
    }

    /// A session that can't be compressed to less than 3/4 of `length`.
    fn long(length: usize) -> Session {
        let bytes: Vec<u8> =
            (0..length as u64 * 3 / 4).map(|at| stdx::hash::hash(1, &at.to_le_bytes()) as u8).collect();
        let mut session = Session::new();
        session.insert("token".to_owned(), URL_SAFE_NO_PAD.encode(bytes).into());
        session
    }

    #[test]
    fn a_long_session_takes_several_cookies_and_the_longest_none() {
        let own = sessions("s", &["secret"]);
        let text = cookies(&own, &long(5000), 1).expect("two cookies");
        assert_eq!(text.matches("; ").count() + 1, 2, "{}", text.len());
        assert_eq!(read(&own, &text, 1), Some(long(5000)));
        let (cut, _) = text.rsplit_once("; ").expect("several");
        assert_eq!(read(&own, cut, 1), None, "the last one is missing");
        assert_eq!(cookies(&own, &long(8000), 1), None);
        // A shorter one removes the cookies that it doesn't need.
        let bench = Bench::new(&format!("GET /\nCookie: {text}"));
        let exchange = bench.exchange();
        assert!(own.write(&session(1), 1, true, &exchange.request, exchange.reply_headers));
        let lines = testkit::lines(exchange.reply_headers);
        assert!(
            lines.contains("Set-Cookie: s2=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Lax"),
            "{lines}"
        );
    }
}
