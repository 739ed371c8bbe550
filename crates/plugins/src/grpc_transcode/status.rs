//! Calls that failed: their statuses in HTTP, and what `grpc-status-details-bin` says.

use super::answer::{self, Style};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use prost::Message;
use prost_reflect::MessageDescriptor;
use protos::Definitions;
use serde_json::{Value, json};

/// The status of a failed call in HTTP, as <https://cloud.google.com/apis/design/errors> has it; 599 for one that doesn't
/// exist.
pub(super) fn to_http(status: &[u8]) -> u16 {
    match status {
        b"1" => 499,
        b"2" | b"13" | b"15" => 500,
        b"3" | b"9" | b"11" => 400,
        b"4" => 504,
        b"5" => 404,
        b"6" | b"10" => 409,
        b"7" => 403,
        b"8" => 429,
        b"12" => 501,
        b"14" => 503,
        b"16" => 401,
        _ => 599,
    }
}

/// What the details of a status are.
#[derive(Debug)]
pub(super) enum Details {
    /// Nobody said.
    Undecoded,
    /// Messages of this type.
    Of(MessageDescriptor),
    /// Messages of a type that isn't defined.
    Unknown,
}

/// `google.rpc.Status`.
#[derive(Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

impl Details {
    /// Those of the type called `name`, if one is named.
    pub(super) fn of(name: Option<&str>, definitions: Option<&Definitions>) -> Self {
        let Some(name) = name else { return Self::Undecoded };
        let found = definitions.and_then(|known| known.message(name.trim_start_matches('.')));
        found.map_or(Self::Unknown, Self::Of)
    }

    /// The body of a failed call; a line of text where the field can't be read.
    pub(super) fn shown(&self, field: &[u8], style: Style) -> Vec<u8> {
        self.read(field, style)
            .map_or_else(|why| why.as_bytes().to_vec(), |value| value.to_string().into_bytes())
    }

    fn read(&self, field: &[u8], style: Style) -> Result<Value, &'static str> {
        let padding = field.iter().rev().take_while(|byte| **byte == b'=').count();
        let bytes = STANDARD_NO_PAD
            .decode(&field[..field.len() - padding])
            .map_err(|_| "grpc-status-details-bin is not base64 format")?;
        let status = Status::decode(&*bytes)
            .map_err(|_| "failed to call pb.decode to decode grpc-status-details-bin")?;
        let details: Option<Vec<Value>> =
            status.details.iter().map(|detail| self.detail(detail, style)).collect();
        let details =
            details.ok_or("failed to call pb.decode to decode details in grpc-status-details-bin")?;
        Ok(json!({"error": {"code": status.code, "message": status.message, "details": details}}))
    }

    fn detail(&self, detail: &Any, style: Style) -> Option<Value> {
        match self {
            Self::Undecoded => {
                let value = String::from_utf8_lossy(&detail.value);
                Some(json!({"type_url": detail.type_url, "value": value}))
            }
            Self::Of(descriptor) => answer::decode(descriptor, style, &detail.value),
            Self::Unknown => None,
        }
    }
}
