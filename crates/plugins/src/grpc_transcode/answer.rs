//! From a message to JSON.

use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage, Syntax, Value,
};
use serde_json::{Map, Value as Json};

/// How messages are shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    enums_as_numbers: bool,
    wide: Wide,
    absent: Absent,
}

/// How integers are shown that 32 bits don't hold.
#[derive(Debug, Clone, Copy)]
enum Wide {
    Number,
    Text,
    Hexadecimal,
}

/// Which fields are shown that the message leaves out.
#[derive(Debug, Clone, Copy)]
enum Absent {
    /// All of proto3.
    Auto,
    None,
    /// All of proto3, and those with a default value of their own.
    All,
    /// Lists and maps of proto3: what Lua's metatables hold is not shown.
    Repeated,
}

impl Style {
    /// What the options say; of two that contradict each other the last.
    pub(super) fn of(options: &[String]) -> Self {
        let mut style = Self { enums_as_numbers: false, wide: Wide::Number, absent: Absent::Auto };
        for option in options {
            match option.as_str() {
                "enum_as_name" => style.enums_as_numbers = false,
                "enum_as_value" => style.enums_as_numbers = true,
                "int64_as_number" => style.wide = Wide::Number,
                "int64_as_string" => style.wide = Wide::Text,
                "int64_as_hexstring" => style.wide = Wide::Hexadecimal,
                "auto_default_values" => style.absent = Absent::Auto,
                "no_default_values" => style.absent = Absent::None,
                "use_default_values" => style.absent = Absent::All,
                "use_default_metatable" => style.absent = Absent::Repeated,
                _ => {}
            }
        }
        style
    }
}

/// The first message of a body; `None` where there is none that can be read.
pub(super) fn read(descriptor: &MessageDescriptor, style: Style, framed: &[u8]) -> Option<Json> {
    let (prefix, rest) = framed.split_at_checked(5)?;
    let (flag, length) = prefix.split_first()?;
    let length = usize::try_from(u32::from_be_bytes(length.try_into().ok()?)).ok()?;
    // No compression was offered.
    if *flag != 0 {
        return None;
    }
    decode(descriptor, style, rest.get(..length)?)
}

/// What `bytes` say as such a message; `None` where they are none.
pub(super) fn decode(descriptor: &MessageDescriptor, style: Style, bytes: &[u8]) -> Option<Json> {
    DynamicMessage::decode(descriptor.clone(), bytes).ok().map(|message| object(&message, style))
}

fn object(message: &DynamicMessage, style: Style) -> Json {
    let mut object = Map::new();
    for field in message.descriptor().fields() {
        if message.has_field(&field) || is_shown(&field, style) {
            object.insert(field.name().to_owned(), value(&message.get_field(&field), &field.kind(), style));
        }
    }
    Json::Object(object)
}

/// Whether a field is shown that the message doesn't have.
fn is_shown(field: &FieldDescriptor, style: Style) -> bool {
    let is_proto3 = field.parent_file().syntax() == Syntax::Proto3;
    if field.is_list() || field.is_map() {
        return is_proto3 && !matches!(style.absent, Absent::None);
    }
    if field.containing_oneof().is_some() || matches!(field.kind(), Kind::Message(_)) {
        return false;
    }
    match style.absent {
        Absent::Auto => is_proto3,
        Absent::All => is_proto3 || field.field_descriptor_proto().default_value.is_some(),
        Absent::None | Absent::Repeated => false,
    }
}

fn value(value: &Value, kind: &Kind, style: Style) -> Json {
    match value {
        Value::Bool(truth) => Json::from(*truth),
        Value::I32(number) => Json::from(*number),
        Value::U32(number) => Json::from(*number),
        Value::I64(number) => wide(i128::from(*number), style).unwrap_or_else(|| Json::from(*number)),
        Value::U64(number) => wide(i128::from(*number), style).unwrap_or_else(|| Json::from(*number)),
        // By its own digits, not by those of the nearest of 64 bits.
        Value::F32(number) => float(number.to_string().parse().unwrap_or_default()),
        Value::F64(number) => float(*number),
        Value::String(text) => Json::from(text.as_str()),
        Value::Bytes(bytes) => Json::from(String::from_utf8_lossy(bytes)),
        Value::EnumNumber(number) => named(*number, kind, style),
        Value::Message(message) => object(message, style),
        Value::List(items) => items.iter().map(|item| self::value(item, kind, style)).collect(),
        Value::Map(members) => {
            let Kind::Message(entry) = kind else { return Json::Null };
            let kind = entry.map_entry_value_field().kind();
            // In a fixed order, since the map has none.
            let mut shown: Vec<_> =
                members.iter().map(|(key, item)| (name(key), self::value(item, &kind, style))).collect();
            shown.sort_by(|(a, _), (b, _)| a.cmp(b));
            Json::Object(shown.into_iter().collect())
        }
    }
}

/// An enum's value, by name if it has one.
fn named(number: i32, kind: &Kind, style: Style) -> Json {
    match kind {
        Kind::Enum(descriptor) if !style.enums_as_numbers => {
            descriptor.get_value(number).map_or_else(|| Json::from(number), |value| Json::from(value.name()))
        }
        _ => Json::from(number),
    }
}

/// The text in place of an integer, where it gets one: 32 bits hold what is a number in any case.
fn wide(number: i128, style: Style) -> Option<Json> {
    if (i128::from(i32::MIN)..=i128::from(u32::MAX)).contains(&number) {
        return None;
    }
    let sign = if number < 0 { "-" } else { "" };
    match style.wide {
        Wide::Number => None,
        Wide::Text => Some(Json::from(format!("#{number}"))),
        Wide::Hexadecimal => Some(Json::from(format!("#{sign}0x{:X}", number.unsigned_abs()))),
    }
}

/// JSON has no numbers for what is none.
fn float(number: f64) -> Json {
    serde_json::Number::from_f64(number).map_or_else(|| Json::from(number.to_string()), Json::Number)
}

fn name(key: &MapKey) -> String {
    match key {
        MapKey::Bool(truth) => truth.to_string(),
        MapKey::I32(number) => number.to_string(),
        MapKey::I64(number) => number.to_string(),
        MapKey::U32(number) => number.to_string(),
        MapKey::U64(number) => number.to_string(),
        MapKey::String(text) => text.clone(),
    }
}
