//! Entries to the transcoding, for fuzz targets alone.

use super::answer::{self, Style};
use super::question;
use prost_reflect::MessageDescriptor;
use serde_json::{Map, Value};

/// The frame of the message with `fields`.
///
/// # Errors
/// The first field whose value is not of its type.
pub fn to_frame(descriptor: &MessageDescriptor, fields: &Map<String, Value>) -> Result<Vec<u8>, String> {
    question::message(descriptor, fields).map(|message| question::framed(&message))
}

/// What the first frame in `bytes` says, with the plugin's `pb_option`.
#[must_use]
pub fn from_frame(descriptor: &MessageDescriptor, options: &[String], bytes: &[u8]) -> Option<Value> {
    answer::read(descriptor, Style::of(options), bytes)
}
