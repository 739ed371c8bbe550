//! A log format, compiled.

use super::line::Text;
use model::var::Var;

/// Text, and the value that follows it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) text: Text,
    pub(super) field: Field,
}

/// A value. What nearly every format has is a field of its own and costs no look-up; the rest goes through the variable.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// The line ends here.
    End,
    RemoteAddr,
    TimeLocal,
    TimeIso8601,
    Msec,
    Request,
    RequestId,
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
    let mut text = Vec::new();
    let mut rest = format.trim_end_matches(['\r', '\n']);
    while let Some(at) = rest.find('$') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        text.extend_from_slice(before.as_bytes());
        let (name, tail) = name(after);
        if name.is_empty() {
            text.push(b'$');
        } else {
            pieces.push(Piece { text: Text::new(std::mem::take(&mut text)), field: field(name) });
        }
        rest = tail;
    }
    text.extend_from_slice(rest.as_bytes());
    text.push(b'\n');
    pieces.push(Piece { text: Text::new(text), field: Field::End });
    pieces
}

/// The names of a format's variables that are none of those which every request has.
pub(super) fn custom_variables(format: &str) -> Vec<String> {
    let name = |piece: Piece| match piece.field {
        Field::Other(Var::Custom(name)) => Some(name),
        _ => None,
    };
    compile(format).into_iter().filter_map(name).collect()
}

/// The variable's name at the start of `after`, and what follows it.
fn name(after: &str) -> (&str, &str) {
    if let Some((name, tail)) = after.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
        return (name, tail);
    }
    let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len());
    after.split_at(end)
}

fn field(name: &str) -> Field {
    match Var::parse(name) {
        Var::RemoteAddr => Field::RemoteAddr,
        Var::TimeLocal => Field::TimeLocal,
        Var::TimeIso8601 => Field::TimeIso8601,
        Var::Msec => Field::Msec,
        Var::RequestLine => Field::Request,
        Var::RequestId => Field::RequestId,
        Var::Status => Field::Status,
        Var::BytesSent => Field::BytesSent,
        Var::BodyBytesSent => Field::BodyBytesSent,
        Var::RequestLength => Field::RequestLength,
        Var::RequestTime => Field::RequestTime,
        Var::UpstreamAddr => Field::UpstreamAddr,
        Var::UpstreamStatus => Field::UpstreamStatus,
        Var::UpstreamResponseTime => Field::UpstreamResponseTime,
        Var::UpstreamScheme => Field::UpstreamScheme,
        Var::UpstreamHost => Field::UpstreamHost,
        Var::UpstreamUri => Field::UpstreamUri,
        Var::Http(header) if header == "host" => Field::Host,
        Var::Http(header) if header == "referer" => Field::Referer,
        Var::Http(header) if header == "user-agent" => Field::UserAgent,
        // In a log it is nginx's variable, which nothing has normalised.
        Var::RequestUri => Field::Other(Var::RealRequestUri),
        var => Field::Other(var),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_split_at_their_variables() {
        let piece = |text: &str, field| Piece { text: Text::new(text.as_bytes().to_vec()), field };
        for (format, pieces) in [
            ("", vec![piece("\n", Field::End)]),
            ("$status\n", vec![piece("", Field::Status), piece("\n", Field::End)]),
            ("cost: 5$, ${status}x $", vec![piece("cost: 5$, ", Field::Status), piece("x $\n", Field::End)]),
            (
                r#"{"u":"$http_user_agent$uri"}"#,
                vec![
                    piece(r#"{"u":""#, Field::UserAgent),
                    piece("", Field::Other(Var::Uri)),
                    piece("\"}\n", Field::End),
                ],
            ),
        ] {
            assert_eq!(compile(format), pieces, "{format}");
        }
    }
}
