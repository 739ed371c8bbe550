//! The keys that fields of stored resources are encrypted with, and the two forms of encrypted text.
//!
//! Ours is `$tg1$` and base64 (URL alphabet, unpadded) of a 12 byte nonce, the AES-256-GCM ciphertext and its tag. The
//! key is derived from the keyring's entry by HKDF-SHA256; the associated data names the field's place, so that a text
//! moved to another field does not open there. APISIX's is base64 of AES-CBC with the entry as key and as IV: equal
//! texts look equal, and nothing notices a change.

use crate::apisix_cbc;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf;
use ring::rand::{SecureRandom, SystemRandom};

/// What our texts begin with; the 1 is the version of what follows.
pub const PREFIX: &str = "$tg1$";

/// APISIX's default keyring, which everybody knows. Opens what an APISIX with default settings stored; nothing is
/// encrypted with it unless the operator writes it into the configuration.
pub const WELL_KNOWN: [&str; 2] = ["qeddd145sfvddff3", "edd1c9f0985e76a2"];

/// The form in which fields are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Ours: authenticated.
    #[default]
    Aead,
    /// APISIX's, for fleets that share their etcd with it.
    Apisix,
}

/// The keys, first one first. Cheap to clone where in an `Arc`.
pub struct Keyring {
    format: Format,
    keys: Vec<Key>,
    /// Entries for APISIX's form alone: the well-known ones.
    legacy: Vec<String>,
    random: SystemRandom,
}

struct Key {
    entry: String,
    aead: LessSafeKey,
}

/// A keyring that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// An entry is too short to be a key.
    #[error("a key has {0} bytes; at least 16 are needed")]
    Short(usize),
    /// The first entry doesn't fit the form in which it shall be used.
    #[error("APISIX's form needs a first key of 16 or 32 bytes, and it has {0}")]
    NoCbcKey(usize),
}

impl Keyring {
    /// A keyring of these entries. The first one encrypts, all of them decrypt. None at all: nothing is encrypted.
    ///
    /// # Errors
    /// When an entry can't be a key.
    pub fn new(entries: &[String], format: Format) -> Result<Self, KeyringError> {
        if let Some(short) = entries.iter().find(|entry| entry.len() < 16) {
            return Err(KeyringError::Short(short.len()));
        }
        if let Some(first) = entries.first()
            && format == Format::Apisix
            && !apisix_cbc::fits(first)
        {
            return Err(KeyringError::NoCbcKey(first.len()));
        }
        let keys = entries.iter().map(|entry| Key { entry: entry.clone(), aead: derive(entry) }).collect();
        let legacy = WELL_KNOWN.into_iter().filter(|known| !entries.iter().any(|entry| entry == known));
        Ok(Self { format, keys, legacy: legacy.map(str::to_owned).collect(), random: SystemRandom::new() })
    }

    /// Whether there is a key to encrypt with.
    #[must_use]
    pub fn encrypts(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The form in which it writes.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether it encrypts with a key that everybody knows.
    #[must_use]
    pub fn well_known(&self) -> bool {
        self.keys.first().is_some_and(|key| WELL_KNOWN.contains(&key.entry.as_str()))
    }

    /// Encrypts `text` for the field at `place`. `None` where there is no key or the system has no randomness, which
    /// leaves the text as it is.
    #[must_use]
    pub fn seal(&self, place: &str, text: &str) -> Option<String> {
        let key = self.keys.first()?;
        match self.format {
            Format::Apisix => apisix_cbc::seal(&key.entry, text),
            Format::Aead => {
                let mut nonce = [0; NONCE_LEN];
                self.random.fill(&mut nonce).ok()?;
                let mut body = text.as_bytes().to_vec();
                let aad = Aad::from(place.as_bytes());
                key.aead
                    .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut body)
                    .ok()?;
                let bytes = [nonce.as_slice(), &body].concat();
                Some(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
            }
        }
    }

    /// Decrypts `text` of the field at `place`, in either form, with whichever key fits. `None` for everything else: a
    /// text that was never encrypted, and one whose key is gone.
    #[must_use]
    pub fn open(&self, place: &str, text: &str) -> Option<String> {
        match text.strip_prefix(PREFIX) {
            Some(body) => self.open_aead(place, body),
            None => {
                let own = self.keys.iter().map(|key| key.entry.as_str());
                own.chain(self.legacy.iter().map(String::as_str)).find_map(|key| apisix_cbc::open(key, text))
            }
        }
    }

    fn open_aead(&self, place: &str, body: &str) -> Option<String> {
        let bytes = URL_SAFE_NO_PAD.decode(body).ok()?;
        let (nonce, body) = bytes.split_first_chunk::<NONCE_LEN>()?;
        self.keys.iter().find_map(|key| {
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let mut body = body.to_vec();
            let opened = key.aead.open_in_place(nonce, Aad::from(place.as_bytes()), &mut body).ok()?;
            String::from_utf8(opened.to_vec()).ok()
        })
    }
}

impl std::fmt::Debug for Keyring {
    /// Without the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyring")
            .field("keys", &self.keys.len())
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

/// The AES-256 key of an entry. HKDF's salt separates it from every other use of the entry, APISIX's own included.
fn derive(entry: &str) -> LessSafeKey {
    let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"tidegate data encryption");
    let secret = salt.extract(entry.as_bytes());
    let key = secret.expand(&[b"tg1 aes-256-gcm"], &AES_256_GCM).expect("32 bytes are one block of the hash");
    LessSafeKey::new(UnboundKey::from(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ring(entries: &[&str], format: Format) -> Keyring {
        let entries: Vec<_> = entries.iter().map(|entry| (*entry).to_owned()).collect();
        Keyring::new(&entries, format).unwrap()
    }

    const OLD: &str = "0123456789abcdef";
    const NEW: &str = "a longer key that APISIX would not take";

    #[test]
    fn what_is_sealed_opens_at_its_place_alone_and_never_looks_the_same() {
        let keyring = ring(&[OLD], Format::Aead);
        let sealed = keyring.seal("routes/csrf/key", "top secret").unwrap();
        assert!(sealed.starts_with(PREFIX) && !sealed.contains("secret"), "{sealed}");
        assert_ne!(keyring.seal("routes/csrf/key", "top secret").unwrap(), sealed);
        assert_eq!(keyring.open("routes/csrf/key", &sealed).as_deref(), Some("top secret"));
        assert_eq!(keyring.open("routes/other/key", &sealed), None);
        let mut changed = sealed.clone().into_bytes();
        let last = changed.len() - 2;
        changed[last] = if changed[last] == b'A' { b'B' } else { b'A' };
        assert_eq!(keyring.open("routes/csrf/key", &String::from_utf8(changed).unwrap()), None);
    }

    #[test]
    fn a_new_first_key_leaves_the_old_texts_readable() {
        for format in [Format::Aead, Format::Apisix] {
            let sealed = ring(&[OLD], format).seal("p", "x").unwrap();
            let rotated = ring(&["fedcba9876543210", OLD], format);
            assert_eq!(rotated.open("p", &sealed).as_deref(), Some("x"));
            let renewed = rotated.seal("p", "x").unwrap();
            assert_eq!(ring(&["fedcba9876543210"], format).open("p", &renewed).as_deref(), Some("x"));
            assert_eq!(ring(&[OLD], format).open("p", &renewed), None, "{format:?}");
        }
    }

    #[test]
    fn apisix_s_texts_open_with_its_defaults_and_with_longer_keys() {
        // Made with `openssl enc -aes-128-cbc -base64 -A -K <hex of the key> -iv <the same>`, the last with -aes-256-cbc.
        let long = "0123456789abcdef0123456789abcdeX";
        for (entries, sealed) in [
            (&[NEW][..], "4y+JvURBE6ZwRbbgaryrhg=="),
            (&[], "RjeV6km+KxQJN2rfu8Y7aA=="),
            (&[OLD, long], "QcyRg/OVc9YP4/4Sb37m5A=="),
        ] {
            assert_eq!(
                ring(entries, Format::Aead).open("p", sealed).as_deref(),
                Some("auth-one"),
                "{sealed}"
            );
        }
        let apisix = ring(&["edd1c9f0985e76a2"], Format::Apisix);
        assert!(apisix.well_known());
        assert_eq!(apisix.seal("p", "auth-one").as_deref(), Some("RjeV6km+KxQJN2rfu8Y7aA=="));
        assert!(ring(&[], Format::Aead).seal("p", "x").is_none());
    }

    #[test]
    fn keys_that_are_none_are_refused() {
        let new = |entry: &str, format| Keyring::new(&[entry.to_owned()], format).map(|_| ());
        assert_eq!(new("short", Format::Aead), Err(KeyringError::Short(5)));
        assert_eq!(new(NEW, Format::Apisix), Err(KeyringError::NoCbcKey(NEW.len())));
        assert!(!format!("{:?}", ring(&[OLD], Format::Aead)).contains(OLD));
    }

    proptest! {
        #[test]
        fn any_text_comes_back_and_any_garbage_is_refused(text in ".{0,200}", place in ".{0,40}") {
            for format in [Format::Aead, Format::Apisix] {
                let keyring = ring(&[OLD], format);
                let sealed = keyring.seal(&place, &text).unwrap();
                prop_assert_eq!(keyring.open(&place, &sealed), Some(text.clone()));
            }
            let keyring = ring(&[OLD], Format::Aead);
            prop_assert_eq!(keyring.open(&place, &format!("{PREFIX}{text}")), None);
        }
    }
}
