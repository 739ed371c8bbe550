//! APISIX's encrypted text: base64 of AES-CBC with PKCS#7 padding, key and IV being the keyring's entry itself.

use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockDecryptMut, BlockEncryptMut, KeyIvInit};
use aes::{Aes128, Aes256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Bytes of an AES block, and of the IV.
const BLOCK: usize = 16;

/// Whether APISIX takes the entry: 16 bytes are AES-128, 32 are AES-256.
pub(crate) fn fits(entry: &str) -> bool {
    matches!(entry.len(), 16 | 32)
}

/// `None` where the entry is no key for it.
pub(crate) fn seal(entry: &str, text: &str) -> Option<String> {
    // OpenSSL reads as much of the IV as the cipher has: of a longer key its beginning.
    let (key, iv) = (entry.as_bytes(), entry.as_bytes().get(..BLOCK)?);
    let text = text.as_bytes();
    let bytes = match entry.len() {
        16 => cbc::Encryptor::<Aes128>::new_from_slices(key, iv).ok()?.encrypt_padded_vec_mut::<Pkcs7>(text),
        32 => cbc::Encryptor::<Aes256>::new_from_slices(key, iv).ok()?.encrypt_padded_vec_mut::<Pkcs7>(text),
        _ => return None,
    };
    Some(STANDARD.encode(bytes))
}

/// `None` where `text` was not encrypted with this entry. There is no tag to tell by: of texts that look like base64 of
/// whole blocks, one in 256 has a valid padding by chance, so it must be UTF-8 as well, which chance makes of hardly any.
pub(crate) fn open(entry: &str, text: &str) -> Option<String> {
    let (key, iv) = (entry.as_bytes(), entry.as_bytes().get(..BLOCK)?);
    let bytes = STANDARD.decode(text).ok()?;
    if bytes.is_empty() || bytes.len() % BLOCK != 0 {
        return None;
    }
    let opened = match entry.len() {
        16 => {
            cbc::Decryptor::<Aes128>::new_from_slices(key, iv).ok()?.decrypt_padded_vec_mut::<Pkcs7>(&bytes)
        }
        32 => {
            cbc::Decryptor::<Aes256>::new_from_slices(key, iv).ok()?.decrypt_padded_vec_mut::<Pkcs7>(&bytes)
        }
        _ => return None,
    };
    String::from_utf8(opened.ok()?).ok()
}
