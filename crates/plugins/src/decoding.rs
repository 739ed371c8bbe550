//! Bodies that upstreams compressed, unpacked for plugins that look into them.

use plugin::HeldBytes;
use std::io::{self, Read};

/// A content coding that is understood here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coded {
    Plain,
    Gzip,
    Brotli,
}

impl Coded {
    /// What `Content-Encoding` says; `None` for another coding, or several.
    pub(crate) fn of(content_encoding: Option<&[u8]>) -> Option<Self> {
        match content_encoding.unwrap_or_default().trim_ascii().to_ascii_lowercase().as_slice() {
            b"" | b"identity" => Some(Self::Plain),
            b"gzip" | b"x-gzip" => Some(Self::Gzip),
            b"br" => Some(Self::Brotli),
            _ => None,
        }
    }

    /// The plain body.
    ///
    /// # Errors
    /// When it isn't in this coding, is longer than `limit_bytes`, or the worker has no room for it: a few bytes must not
    /// become more than there is memory.
    pub(crate) fn decode(self, body: Vec<u8>, limit_bytes: usize) -> io::Result<Vec<u8>> {
        match self {
            // Nothing, as in the answer to HEAD, is in no coding.
            _ if body.is_empty() => Ok(body),
            Self::Plain => Ok(body),
            Self::Gzip => read_whole(flate2::read::MultiGzDecoder::new(&body[..]), limit_bytes),
            Self::Brotli => read_whole(brotli::Decompressor::new(&body[..], 4096), limit_bytes),
        }
    }

    /// The beginning of the plain body, at most `limit_bytes` of it.
    pub(crate) fn decode_start(self, body: Vec<u8>, limit_bytes: usize) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        let most = limit_bytes as u64;
        match self {
            Self::Plain => return Ok(body),
            Self::Gzip => flate2::read::MultiGzDecoder::new(&body[..]).take(most).read_to_end(&mut plain)?,
            Self::Brotli => brotli::Decompressor::new(&body[..], 4096).take(most).read_to_end(&mut plain)?,
        };
        Ok(plain)
    }
}

fn read_whole(mut from: impl Read, limit_bytes: usize) -> io::Result<Vec<u8>> {
    let (mut plain, mut room) = (Vec::new(), HeldBytes::default());
    let mut piece = [0; 16 << 10];
    loop {
        let count = from.read(&mut piece)?;
        if count == 0 {
            return Ok(plain);
        }
        if count > limit_bytes - plain.len() {
            let message = format!("the unpacked body has more than max_resp_body_size: {limit_bytes} bytes");
            return Err(io::Error::other(message));
        }
        room.grow(count)?;
        plain.extend_from_slice(&piece[..count]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_was_packed_is_unpacked_whole_or_not() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&[b'a'; 1000]).unwrap();
        let gzip = gzip.finish().unwrap();
        let mut brotli = brotli::CompressorWriter::new(Vec::new(), 4096, 1, 20);
        brotli.write_all(&[b'a'; 1000]).unwrap();
        let brotli = brotli.into_inner();
        for (field, body) in [("GZIP", &gzip), ("br", &brotli), ("", &vec![b'a'; 1000])] {
            let coded = Coded::of(Some(field.as_bytes())).unwrap();
            assert_eq!(coded.decode(body.clone(), 2000).unwrap(), [b'a'; 1000], "{field}");
        }
        assert_eq!(Coded::Gzip.decode_start(gzip.clone(), 10).unwrap(), [b'a'; 10]);
        assert!(Coded::Gzip.decode(gzip.clone(), 999).is_err() && Coded::Brotli.decode(brotli, 999).is_err());
        assert!(Coded::Gzip.decode(gzip[..gzip.len() - 9].to_vec(), 2000).is_err(), "half of it");
        assert_eq!(Coded::Gzip.decode(Vec::new(), 10).unwrap(), b"", "the answer to HEAD");
        assert!(Coded::Gzip.decode(b"plain".to_vec(), 10).is_err());
        assert_eq!((Coded::of(None), Coded::of(Some(b"deflate"))), (Some(Coded::Plain), None));
    }
}
