//! From the fields of a request to a message.

use plugin::{Request, form_fields};
use prost_reflect::prost::Message;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};
use serde_json::{Map, Value as Json};

type Fields = Map<String, Json>;

/// What the request says: a JSON object in its body, an encoded form there, or its query.
pub(super) fn arguments(request: &Request<'_>, body: &[u8]) -> Result<Fields, String> {
    let content_type = request.header(b"content-type").unwrap_or_default();
    let is_json = String::from_utf8_lossy(content_type).to_ascii_lowercase().contains("application/json");
    let method = request.method();
    let form = match method {
        b"POST" | b"PUT" | b"PATCH" if is_json && !body.is_empty() => {
            return serde_json::from_slice(body)
                .map_err(|error| format!("the body is no JSON object: {error}"));
        }
        b"POST" => body,
        _ => request.query(),
    };
    match form_fields(form) {
        Json::Object(fields) => Ok(fields),
        _ => Ok(Fields::new()),
    }
}

/// The message in the one frame that a unary call consists of.
pub(super) fn framed(message: &DynamicMessage) -> Vec<u8> {
    let length = message.encoded_len();
    let mut frame = Vec::with_capacity(5 + length);
    frame.push(0);
    // Bounded by what was read of the body.
    frame.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    frame.append(&mut message.encode_to_vec());
    frame
}

/// A message with those of `fields` that it has.
///
/// # Errors
/// The first field whose value is not of its type.
pub(super) fn message(descriptor: &MessageDescriptor, fields: &Fields) -> Result<DynamicMessage, String> {
    let mut message = DynamicMessage::new(descriptor.clone());
    for field in descriptor.fields() {
        let Some(given) = fields.get(field.name()).filter(|given| !given.is_null()) else { continue };
        let set = value(&field, given).and_then(|value| {
            message.try_set_field(&field, value).map_err(|_| "is of another type".to_owned())
        });
        set.map_err(|why| format!("{}: {why}", field.name()))?;
    }
    Ok(message)
}

fn value(field: &FieldDescriptor, given: &Json) -> Result<Value, String> {
    if field.is_map() {
        return map(field, given);
    }
    let kind = field.kind();
    if !field.is_list() {
        return single(&kind, given);
    }
    let items = match given {
        Json::Array(items) => items,
        one => std::slice::from_ref(one),
    };
    items.iter().map(|item| single(&kind, item)).collect::<Result<_, _>>().map(Value::List)
}

fn map(field: &FieldDescriptor, given: &Json) -> Result<Value, String> {
    let (Kind::Message(entry), Some(members)) = (field.kind(), given.as_object()) else {
        return Err("is no object".to_owned());
    };
    let (keys, values) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
    let member = |(name, given): (&String, &Json)| {
        let key = single(&keys, &Json::from(name.as_str()))?.into_map_key();
        Ok((key.ok_or("has no such keys")?, single(&values, given).map_err(|why| format!("{name}: {why}"))?))
    };
    members
        .iter()
        .map(member)
        .collect::<Result<std::collections::HashMap<MapKey, Value>, String>>()
        .map(Value::Map)
}

fn single(kind: &Kind, given: &Json) -> Result<Value, String> {
    let wrong = |expected: &str| format!("is no {expected}");
    match kind {
        Kind::Message(descriptor) => {
            let fields = given.as_object().ok_or_else(|| wrong("object"))?;
            message(descriptor, fields).map(Value::Message)
        }
        Kind::Enum(descriptor) => {
            let named = given.as_str().and_then(|name| descriptor.get_value_by_name(name));
            let number = named.map(|value| value.number()).or_else(|| integer(given));
            number.map(Value::EnumNumber).ok_or_else(|| format!("is no {}", descriptor.full_name()))
        }
        Kind::Bool => boolean(given).map(Value::Bool).ok_or_else(|| wrong("boolean")),
        Kind::String => text(given).map(Value::String).ok_or_else(|| wrong("string")),
        Kind::Bytes => {
            text(given).map(|text| Value::Bytes(text.into_bytes().into())).ok_or_else(|| wrong("string"))
        }
        Kind::Float => number(given).map(|number| Value::F32(number as f32)).ok_or_else(|| wrong("number")),
        Kind::Double => number(given).map(Value::F64).ok_or_else(|| wrong("number")),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            integer(given).map(Value::I32).ok_or_else(|| wrong("integer of 32 bits"))
        }
        Kind::Uint32 | Kind::Fixed32 => {
            integer(given).map(Value::U32).ok_or_else(|| wrong("unsigned integer of 32 bits"))
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            integer(given).map(Value::I64).ok_or_else(|| wrong("integer of 64 bits"))
        }
        Kind::Uint64 | Kind::Fixed64 => {
            integer(given).map(Value::U64).ok_or_else(|| wrong("unsigned integer of 64 bits"))
        }
    }
}

/// Numbers pass for texts, as in forms.
fn text(given: &Json) -> Option<String> {
    match given {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// In a query a name alone says yes.
fn boolean(given: &Json) -> Option<bool> {
    match given {
        Json::Bool(truth) => Some(*truth),
        Json::String(text) => match text.as_str() {
            "true" | "1" | "" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn number(given: &Json) -> Option<f64> {
    match given {
        Json::Number(number) => number.as_f64(),
        Json::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// A number, or a text with one: decimal or, behind `0x`, hexadecimal, with the `#` that APISIX puts before large ones.
fn integer<N: TryFrom<i128>>(given: &Json) -> Option<N> {
    let wide = match given {
        Json::Number(number) => {
            number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)).or_else(|| {
                // Twelve may be written as 12.0; beyond 2^53 that says less than it seems.
                number
                    .as_f64()
                    .filter(|value| value.fract() == 0.0 && value.abs() < 9e15)
                    .map(|value| value as i128)
            })?
        }
        Json::String(text) => {
            let mut rest = text.as_str();
            let mut negative = false;
            // APISIX takes both orders.
            for _ in 0..2 {
                if let Some(behind) = rest.strip_prefix('-').filter(|_| !negative) {
                    (negative, rest) = (true, behind);
                }
                rest = rest.strip_prefix('#').unwrap_or(rest);
            }
            let unsigned = match rest.strip_prefix("0x").or(rest.strip_prefix("0X")) {
                Some(digits) => u64::from_str_radix(digits, 16).ok()?,
                None => rest.parse::<u64>().ok()?,
            };
            if negative { -i128::from(unsigned) } else { i128::from(unsigned) }
        }
        _ => return None,
    };
    N::try_from(wide).ok()
}
