//! Compressing a whole file, once.

use model::resource::{Compress, Encoding};
use std::io::{self, Write};
use std::sync::Arc;

/// The longest file that is compressed here: at about 20 MB/s (gzip, level 6, and brotli, quality 5, are near that) it
/// holds a thread for less than half a second. Longer ones are sent as they are, or compressed beforehand.
pub const COMPRESSED_FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Brotli's window, as a power of two; RFC 7932 has 10 to 24, and browsers take all of them.
const BROTLI_WINDOW: u32 = 22;

/// Compresses `plain`. `None` where that gains nothing.
///
/// # Errors
/// The encoder's: a level out of range, or memory.
pub fn compress(plain: &[u8], encoding: Encoding, settings: &Compress) -> io::Result<Option<Arc<[u8]>>> {
    let out = Vec::with_capacity(plain.len() / 3);
    let out = match encoding {
        Encoding::Gzip => {
            let level = flate2::Compression::new(settings.gzip_level.clamp(1, 9));
            let mut encoder = flate2::write::GzEncoder::new(out, level);
            encoder.write_all(plain)?;
            encoder.finish()?
        }
        Encoding::Br => {
            let quality = settings.brotli_level.min(11);
            let mut encoder = brotli::CompressorWriter::new(out, 64 * 1024, quality, BROTLI_WINDOW);
            encoder.write_all(plain)?;
            encoder.flush()?;
            encoder.into_inner()
        }
        Encoding::Zstd => zstd::bulk::compress(plain, settings.zstd_level.clamp(1, 19))?,
    };
    Ok((out.len() < plain.len()).then(|| out.into()))
}

/// Whether files of this type and length are to be compressed.
#[must_use]
pub fn wanted(settings: &Compress, media_type: &str, length: u64) -> bool {
    let bare = media_type.split(';').next().unwrap_or_default().trim();
    let fits = (settings.min_length..=COMPRESSED_FILE_BYTES_MAX).contains(&length) && length > 0;
    fits && (bare == "text/html" || settings.types.iter().any(|wanted| wanted == "*" || wanted == bare))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn plain(encoding: Encoding, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match encoding {
            Encoding::Gzip => flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).unwrap(),
            Encoding::Br => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out).unwrap(),
            Encoding::Zstd => zstd::Decoder::new(bytes).unwrap().read_to_end(&mut out).unwrap(),
        };
        out
    }

    #[test]
    fn what_is_compressed_comes_back() {
        let text = "the same words again and again. ".repeat(2000).into_bytes();
        for encoding in [Encoding::Gzip, Encoding::Br, Encoding::Zstd] {
            let small = compress(&text, encoding, &Compress::default()).unwrap().unwrap();
            assert!(small.len() < text.len() / 20, "{encoding:?}: {}", small.len());
            assert_eq!(plain(encoding, &small), text, "{encoding:?}");
            assert_eq!(compress(b"abc", encoding, &Compress::default()).unwrap(), None, "{encoding:?}");
        }
    }

    #[test]
    fn types_and_lengths_decide() {
        let settings = Compress { types: vec!["text/css".into()], min_length: 100, ..Compress::default() };
        let cases = [
            ("text/css", 100, true),
            ("text/css; charset=utf-8", 100, true),
            ("text/css", 99, false),
            ("text/html", 100, true),
            ("image/png", 1000, false),
            ("text/css", COMPRESSED_FILE_BYTES_MAX + 1, false),
        ];
        for (media_type, length, expected) in cases {
            assert_eq!(wanted(&settings, media_type, length), expected, "{media_type} {length}");
        }
        let all = Compress { types: vec!["*".into()], ..Compress::default() };
        assert!(wanted(&all, "image/x-icon", 1000));
    }
}
