//! Bodies that upstreams compressed, unpacked for plugins that look into them.

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

    /// The plain body, of which there are at most `limit_bytes`: the rest of a longer one is cut off, so that a few bytes
    /// can't become more than there is memory.
    pub(crate) fn decode(self, body: Vec<u8>, limit_bytes: usize) -> io::Result<Vec<u8>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_was_packed_is_unpacked_up_to_the_limit() {
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
        assert_eq!(Coded::Gzip.decode(gzip, 10).unwrap(), [b'a'; 10]);
        assert!(Coded::Gzip.decode(b"plain".to_vec(), 10).is_err());
        assert_eq!((Coded::of(None), Coded::of(Some(b"deflate"))), (Some(Coded::Plain), None));
    }
}
