//! What a request for a file is answered with.

use crate::body::Body;
use crate::document::Representation;
use crate::query::Query;
use std::io;
use std::rc::Rc;
use wire::FieldSink;
use wire::conditional::{Validators, Verdict};
use wire::range::{self, Multipart, Ranges};

/// An answer: status, fields and body. `Content-Length` is the body's [`Body::length`], also where HEAD leaves it out.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The fields, without `Content-Length`, `Date`, `Server` and `Connection`.
    pub fields: Fields,
    /// The body.
    pub body: Body,
}

/// The fields of an answer.
#[derive(Debug)]
pub enum Fields {
    /// Those of a whole file, made once.
    Shared(SharedFields),
    /// Those of this answer.
    Own(Vec<(&'static str, String)>),
}

/// The fields of a whole file.
#[derive(Debug)]
pub struct SharedFields(Rc<Representation>);

impl Fields {
    /// Each field.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let list = match self {
            Self::Shared(shared) => &shared.0.fields,
            Self::Own(own) => own,
        };
        list.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// Writes the fields.
    pub fn write(&self, out: &mut impl FieldSink) {
        match self {
            Self::Shared(shared) => out.lines(shared.0.lines.all()),
            Self::Own(own) => {
                for (name, value) in own {
                    out.any(name, value.as_bytes());
                }
            }
        }
    }
}

impl Answer {
    /// A status without anything else.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self { status, fields: Fields::Own(Vec::new()), body: Body::None }
    }

    /// A page made here.
    pub(crate) fn html(status: u16, html: Vec<u8>) -> Self {
        Self {
            status,
            fields: Fields::Own(vec![("Content-Type", "text/html; charset=utf-8".to_owned())]),
            body: Body::One(html.into()),
        }
    }

    /// A file in the place of what was asked for. Nothing is said of the file itself but its type: how long it may be kept,
    /// and when it was written, is no word about what was asked for.
    pub(crate) fn page(status: u16, from: &Representation) -> io::Result<Self> {
        let media_type = from.fields.iter().filter(|(name, _)| *name == "Content-Type").cloned();
        Ok(Self { status, fields: Fields::Own(media_type.collect()), body: from.body()? })
    }

    /// The same with these fields, too.
    pub(crate) fn with_fields(mut self, more: &Fields) -> Self {
        let all = self.fields.iter().chain(more.iter());
        self.fields = Fields::Own(all.map(|(name, value)| (name, value.to_owned())).collect());
        self
    }

    fn whole(from: Rc<Representation>) -> io::Result<Self> {
        let body = from.body()?;
        Ok(Self { status: 200, fields: Fields::Shared(SharedFields(from)), body })
    }

    /// A representation as `query` wants it: whole, in part, or not at all.
    pub(crate) fn of(query: &Query<'_>, from: Rc<Representation>) -> io::Result<Self> {
        let current =
            Validators { etag: Some(from.etag.as_bytes()), modified_s: Some(from.identity.modified_s) };
        match query.conditions.evaluate(current) {
            Verdict::Proceed => {}
            Verdict::NotModified => return Ok(not_modified(&from)),
            Verdict::Failed => return Ok(Self::status(412)),
        }
        match query.conditions.ranges(current, from.length) {
            Ranges::All => Self::whole(from),
            Ranges::None => {
                let mut answer = Self::status(416);
                answer.fields = Fields::Own(vec![("Content-Range", range::unsatisfied(from.length))]);
                Ok(answer)
            }
            Ranges::Some(pieces) => match pieces.as_slice() {
                [(first, length)] => single(&from, *first, *length),
                several => multipart(&from, several),
            },
        }
    }
}

/// 304 has the fields that a cache may need (RFC 9110 section 15.4.5).
fn not_modified(from: &Representation) -> Answer {
    let kept = ["ETag", "Last-Modified", "Vary", "Cache-Control"];
    let fields = from.fields.iter().filter(|(name, _)| kept.contains(name)).cloned().collect();
    Answer { status: 304, fields: Fields::Own(fields), body: Body::None }
}

fn single(from: &Representation, first: u64, length: u64) -> io::Result<Answer> {
    let mut fields = from.fields.clone();
    fields.push(("Content-Range", range::content_range(first, length, from.length)));
    let body = Body::One(from.content()?.slice(first, length));
    Ok(Answer { status: 206, fields: Fields::Own(fields), body })
}

fn multipart(from: &Representation, pieces: &[(u64, u64)]) -> io::Result<Answer> {
    // The tag's digits can't be foreseen by whoever wrote the file, and change when it does.
    let tag: String = from.etag.chars().filter(char::is_ascii_alphanumeric).collect();
    let boundary = format!("tidegate-{tag}-{:x}", from.identity.modified_ns ^ from.identity.inode);
    let content = from.content()?;
    let mut fields = from.fields.clone();
    let field = fields.iter_mut().find(|(name, _)| *name == "Content-Type");
    let media_type = field.as_ref().map_or_else(String::new, |(_, value)| value.clone());
    let parts = Multipart { boundary: &boundary, media_type: &media_type, length: from.length };
    if let Some((_, value)) = field {
        *value = parts.content_type();
    }
    let body = parts.around(&content, pieces);
    Ok(Answer { status: 206, fields: Fields::Own(fields), body: Body::Many(body) })
}
