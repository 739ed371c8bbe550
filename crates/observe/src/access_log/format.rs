//! A log format, compiled.

use model::var::Var;

/// One piece of a line. What nearly every format has is a piece of its own and costs no look-up; the rest goes through
/// the variable.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(Box<[u8]>),
    RemoteAddr,
    TimeLocal,
    TimeIso8601,
    Msec,
    Request,
    Status,
    BytesSent,
    BodyBytesSent,
    RequestLength,
    RequestTime,
    Host,
    Referer,
    UserAgent,
    UpstreamAddr,
    UpstreamStatus,
    UpstreamResponseTime,
    UpstreamScheme,
    UpstreamHost,
    UpstreamUri,
    Other(Var),
}

/// Compiles a format. Every text is one: a `$` that no name follows stands for itself. Names are as in nginx, bare or in
/// braces; line breaks at the end, which YAML's block style leaves, are dropped.
pub(super) fn compile(format: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut plain = Vec::new();
    let mut rest = format.trim_end_matches(['\r', '\n']);
    while let Some(at) = rest.find('$') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        plain.extend_from_slice(before.as_bytes());
        let (name, tail) = name(after);
        if name.is_empty() {
            plain.push(b'$');
        } else {
            push_text(&mut pieces, &mut plain);
            pieces.push(piece(name));
        }
        rest = tail;
    }
    plain.extend_from_slice(rest.as_bytes());
    plain.push(b'\n');
    push_text(&mut pieces, &mut plain);
    pieces
}

fn push_text(pieces: &mut Vec<Piece>, plain: &mut Vec<u8>) {
    if !plain.is_empty() {
        pieces.push(Piece::Text(std::mem::take(plain).into()));
    }
}

/// The variable's name at the start of `after`, and what follows it.
fn name(after: &str) -> (&str, &str) {
    if let Some((name, tail)) = after.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
        return (name, tail);
    }
    let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len());
    after.split_at(end)
}

fn piece(name: &str) -> Piece {
    match Var::parse(name) {
        Var::RemoteAddr => Piece::RemoteAddr,
        Var::TimeLocal => Piece::TimeLocal,
        Var::TimeIso8601 => Piece::TimeIso8601,
        Var::Msec => Piece::Msec,
        Var::RequestLine => Piece::Request,
        Var::Status => Piece::Status,
        Var::BytesSent => Piece::BytesSent,
        Var::BodyBytesSent => Piece::BodyBytesSent,
        Var::RequestLength => Piece::RequestLength,
        Var::RequestTime => Piece::RequestTime,
        Var::UpstreamAddr => Piece::UpstreamAddr,
        Var::UpstreamStatus => Piece::UpstreamStatus,
        Var::UpstreamResponseTime => Piece::UpstreamResponseTime,
        Var::UpstreamScheme => Piece::UpstreamScheme,
        Var::UpstreamHost => Piece::UpstreamHost,
        Var::UpstreamUri => Piece::UpstreamUri,
        Var::Http(header) if header == "host" => Piece::Host,
        Var::Http(header) if header == "referer" => Piece::Referer,
        Var::Http(header) if header == "user-agent" => Piece::UserAgent,
        var => Piece::Other(var),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_split_at_their_variables() {
        let text = |text: &str| Piece::Text(text.as_bytes().into());
        for (format, pieces) in [
            ("", vec![text("\n")]),
            ("$status\n", vec![Piece::Status, text("\n")]),
            ("cost: 5$, ${status}x $", vec![text("cost: 5$, "), Piece::Status, text("x $\n")]),
            (
                r#"{"u":"$http_user_agent$uri"}"#,
                vec![text(r#"{"u":""#), Piece::UserAgent, Piece::Other(Var::Uri), text("\"}\n")],
            ),
        ] {
            assert_eq!(compile(format), pieces, "{format}");
        }
    }
}
