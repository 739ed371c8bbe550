//! What serving a file over HTTPS takes: the file, a certificate, and one nginx configuration for everybody.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

/// The size of the study's file.
const TEXT_BYTES: usize = 53_000;

/// The file's path.
pub(super) const PATH: &str = "/text.txt";

/// How files get compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gzip {
    /// As the study has it: by whoever serves them.
    Served,
    /// Before, once and for all: what nginx is fastest with.
    Before,
}

/// Writes the file, as it is and compressed, and a certificate.
pub(super) fn prepare(folder: &Path) -> Result<(), String> {
    let site = folder.join("site");
    let text = text();
    fs::create_dir_all(&site)
        .and_then(|()| fs::write(site.join(&PATH[1..]), &text))
        .map_err(|error| format!("{}: {error}", site.display()))?;
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])
        .map_err(|error| format!("no certificate: {error}"))?;
    fs::write(folder.join("server.crt"), certified.cert.pem())
        .and_then(|()| fs::write(folder.join("server.key"), certified.signing_key.serialize_pem()))
        .map_err(|error| format!("{}: {error}", folder.display()))
}

/// Lays the compressed file beside the file. Not before the gateway runs that is to compress by itself.
pub(super) fn precompress(folder: &Path) -> Result<(), String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    let compressed = encoder.write_all(&text()).and_then(|()| encoder.finish());
    compressed
        .and_then(|bytes| fs::write(folder.join("site").join(format!("{}.gz", &PATH[1..])), bytes))
        .map_err(|error| format!("the compressed file: {error}"))
}

/// The configuration, on `port` of loopback.
pub(super) fn configuration(port: u16, workers: u16, gzip: Gzip) -> String {
    let compression = match gzip {
        Gzip::Served => "gzip on; gzip_min_length 100; gzip_buffers 8 32k; gzip_types text/plain text/css;",
        Gzip::Before => "gzip_static on;",
    };
    include_str!("../../data/scenario/files.conf")
        .replace("COMPRESSION", compression)
        .replace("PORT", &port.to_string())
        .replace("WORKERS", &workers.to_string())
}

/// Words in no order, the same ones each time; they compress to about a third, as prose does.
fn text() -> Vec<u8> {
    const WORDS: &str = "the river carries its water past the gate and the gate keeps count of what went by while \
                         morning light falls on stones that nobody moved since the tide turned over";
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    // The constants of Knuth's MMIX generator; the upper bits are the good ones.
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap_or_default()
    };
    let mut text = String::with_capacity(TEXT_BYTES + 16);
    while text.len() < TEXT_BYTES {
        text.push_str(words[next() % words.len()]);
        text.push(if next() % 12 == 0 { '\n' } else { ' ' });
    }
    text.truncate(TEXT_BYTES);
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_text_of_the_studys_size_and_compresses_like_prose() {
        let folder = tempfile::tempdir().unwrap();
        prepare(folder.path()).unwrap();
        precompress(folder.path()).unwrap();
        let size = |name: &str| fs::metadata(folder.path().join("site").join(name)).unwrap().len();
        assert_eq!(size("text.txt"), 53_000);
        assert!((10_000..25_000).contains(&size("text.txt.gz")), "{}", size("text.txt.gz"));
        assert!(fs::read_to_string(folder.path().join("server.key")).unwrap().contains("PRIVATE KEY"));
    }

    #[test]
    fn nothing_is_left_to_fill_in() {
        for gzip in [Gzip::Served, Gzip::Before] {
            let text = configuration(8443, 2, gzip);
            let code: String = text.lines().filter(|line| !line.starts_with('#')).collect();
            assert!(!["PORT", "WORKERS", "COMPRESSION"].iter().any(|word| code.contains(word)), "{text}");
        }
    }
}
