//! Bytes to be sent, wherever they are: in memory, or in a file that is not read before they are wanted.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A run of bytes. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Segment {
    /// Bytes in memory: from the first number on, so many. They are there.
    Memory(Arc<[u8]>, usize, usize),
    /// Bytes of a file: from the first number on, so many. The file may have become shorter since.
    File(Arc<File>, u64, u64),
}

impl Segment {
    /// How many bytes there are.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Memory(_, _, length) => *length as u64,
            Self::File(_, _, length) => *length,
        }
    }

    /// The part of `length` bytes from `first` on, as far as there are so many.
    #[must_use]
    pub fn slice(&self, first: u64, length: u64) -> Self {
        let first = first.min(self.length());
        let length = length.min(self.length() - first);
        match self {
            // What is within a slice of memory fits into its length's type.
            Self::Memory(bytes, start, _) => {
                Self::Memory(Arc::clone(bytes), start + first as usize, length as usize)
            }
            Self::File(file, start, _) => Self::File(Arc::clone(file), start + first, length),
        }
    }

    /// Its bytes from `at` on, in place where they are in memory, else as many as one read brings into `buffer`. None are
    /// the end.
    ///
    /// # Errors
    /// The file's, and `UnexpectedEof` where it has become shorter.
    pub fn piece<'p>(&'p self, at: u64, buffer: &'p mut [u8]) -> io::Result<&'p [u8]> {
        let rest = self.slice(at, u64::MAX);
        match (self, rest) {
            (Self::Memory(bytes, ..), Self::Memory(_, start, length)) => Ok(&bytes[start..start + length]),
            (_, Self::File(file, start, length)) if length > 0 => {
                let room = buffer.len().min(usize::try_from(length).unwrap_or(usize::MAX));
                match file.read_at(&mut buffer[..room], start)? {
                    0 => Err(io::ErrorKind::UnexpectedEof.into()),
                    count => Ok(&buffer[..count]),
                }
            }
            _ => Ok(&[]),
        }
    }
}

impl From<Vec<u8>> for Segment {
    fn from(bytes: Vec<u8>) -> Self {
        let length = bytes.len();
        Self::Memory(bytes.into(), 0, length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_segment_is_read_alike_from_memory_and_file() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"..0123456789..").unwrap();
        let file = Segment::File(Arc::new(file), 2, 10);
        for segment in [Segment::from(b"..0123456789..".to_vec()).slice(2, 10), file] {
            assert_eq!(segment.length(), 10);
            for (first, length, expected) in [
                (0, 10, "0123456789"),
                (3, 4, "3456"),
                (8, 9, "89"),
                (10, 1, ""),
                (u64::MAX, u64::MAX, ""),
                (0, u64::MAX, "0123456789"),
            ] {
                let part = segment.slice(first, length);
                let (mut buffer, mut read) = ([0; 3], Vec::new());
                while read.len() as u64 != part.length() {
                    read.extend_from_slice(part.piece(read.len() as u64, &mut buffer).unwrap());
                }
                assert_eq!(read, expected.as_bytes(), "{first} {length}");
                assert!(part.piece(part.length(), &mut buffer).unwrap().is_empty());
            }
        }
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let segment = Segment::File(Arc::new(tempfile::tempfile().unwrap()), 0, 1);
        let error = segment.piece(0, &mut [0; 4]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
