//! `ngx.shared`: the functions of dictionaries; the first argument is the dictionary's name.

use super::host::{Api, nil_and};
use crate::code::Code;
use crate::dicts::{BUILT_IN, Dict, Entry, Inner, SIZE_DEFAULT, Stored, expiry};
use mlua::{LuaString, MultiValue, Value};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Puts them in.
pub(super) fn open(api: &Api<'_>, code: &Arc<Code>) -> mlua::Result<()> {
    let (dicts, sizes) = (Arc::clone(&code.dicts), code.settings.shared_dicts.clone());
    let exists = sizes.clone();
    api.put("dict_exists", move |_, name: String| {
        Ok(BUILT_IN.contains(&&*name) || exists.iter().any(|(known, _)| *known == name))
    })?;
    let find = move |name: &str| {
        let size = sizes.iter().find(|(known, _)| known == name).map_or(SIZE_DEFAULT, |(_, size)| *size);
        dicts.dict(name, size)
    };
    let of = find.clone();
    api.put("dict_get", move |lua, (name, key, stale): (String, LuaString, bool)| {
        let dict = of(&name);
        let mut inner = dict.lock();
        let entry = if stale { inner.entries.get_mut(&*key.as_bytes()) } else { inner.get(&key.as_bytes()) };
        let Some(entry) = entry else { return Ok(MultiValue::from_iter([Value::Nil])) };
        let flags = if entry.flags == 0 { Value::Nil } else { Value::Integer(entry.flags) };
        let is_stale = entry.expires.is_some_and(|expires| expires <= Instant::now());
        Ok(MultiValue::from_iter([entry.stored.lua(lua)?, flags, Value::Boolean(is_stale)]))
    })?;
    writing(api, find.clone())?;
    rest(api, find)
}

/// Setting and counting.
fn writing(api: &Api<'_>, find: impl Fn(&str) -> Arc<Dict> + Clone + 'static) -> mlua::Result<()> {
    let of = find.clone();
    // `mode` is `set`, `add` (only a new one) or `replace` (only one that is there).
    api.put("dict_set", move |lua, args: (String, String, LuaString, Value, f64, i64)| {
        let (name, mode, key, value, ttl, flags) = args;
        let dict = of(&name);
        let present = dict.lock().get(&key.as_bytes()).is_some();
        let refused = match &*mode {
            "add" if present => Some("exists"),
            "replace" if !present => Some("not found"),
            _ => None,
        };
        let result = match (refused, Stored::of(&value)) {
            (Some(why), _) => Err(why),
            (None, Some(stored)) => dict.set(&key.as_bytes(), stored, ttl, flags),
            (None, None) if value.is_nil() => {
                dict.lock().remove(&key.as_bytes());
                Ok(false)
            }
            (None, None) => Err("bad value type"),
        };
        let (done, why, forced) = match result {
            Ok(forced) => (true, Value::Nil, forced),
            Err(why) => (false, Value::String(lua.create_string(why)?), false),
        };
        Ok((done, why, forced))
    })?;
    let of = find.clone();
    api.put("dict_incr", move |lua, args: (String, LuaString, f64, Option<f64>, f64)| {
        let (name, key, by, init, ttl) = args;
        let dict = of(&name);
        let key = key.as_bytes();
        let mut inner = dict.lock();
        if let Some(entry) = inner.get(&key) {
            let Stored::Number(number) = &mut entry.stored else {
                return nil_and(lua, "not a number");
            };
            *number += by;
            return Ok(MultiValue::from_iter([Value::Number(*number)]));
        }
        let Some(init) = init else { return nil_and(lua, "not found") };
        drop(inner);
        match dict.set(&key, Stored::Number(init + by), ttl, 0) {
            Ok(_) => Ok(MultiValue::from_iter([Value::Number(init + by)])),
            Err(why) => nil_and(lua, why),
        }
    })
}

/// Ages, and the whole of a dictionary.
fn rest(api: &Api<'_>, find: impl Fn(&str) -> Arc<Dict> + Clone + 'static) -> mlua::Result<()> {
    let of = find.clone();
    api.put("dict_ttl", move |_, (name, key): (String, LuaString)| {
        let dict = of(&name);
        let mut inner = dict.lock();
        let left = |entry: &mut Entry| {
            entry
                .expires
                .map_or(0.0, |expires| expires.saturating_duration_since(Instant::now()).as_secs_f64())
        };
        Ok(inner.get(&key.as_bytes()).map(left))
    })?;
    let of = find.clone();
    api.put("dict_expire", move |_, (name, key, ttl): (String, LuaString, f64)| {
        let dict = of(&name);
        let mut inner = dict.lock();
        let entry = inner.get(&key.as_bytes());
        Ok(entry.map(|entry| entry.expires = expiry(ttl)).is_some())
    })?;
    let of = find.clone();
    api.put("dict_flush", move |_, (name, all): (String, bool)| {
        let dict = of(&name);
        let mut inner = dict.lock();
        if all {
            *inner = Inner::default();
            return Ok(0);
        }
        Ok(inner.drop_expired())
    })?;
    let of = find.clone();
    api.put("dict_keys", move |lua, (name, most): (String, usize)| {
        let dict = of(&name);
        let inner = dict.lock();
        let most = if most == 0 { usize::MAX } else { most };
        let keys = inner.entries.keys().take(most).map(|key| lua.create_string(key));
        lua.create_sequence_from(keys.collect::<mlua::Result<Vec<_>>>()?)
    })?;
    let of = find.clone();
    api.put("dict_space", move |_, name: String| {
        let dict = of(&name);
        let bytes = dict.lock().bytes;
        Ok((dict.size, dict.size.saturating_sub(bytes)))
    })?;
    lists(api, find)
}

/// Lists.
fn lists(api: &Api<'_>, find: impl Fn(&str) -> Arc<Dict> + 'static) -> mlua::Result<()> {
    // `how` is `lpush`, `rpush`, `lpop`, `rpop` or `llen`.
    api.put("dict_list", move |lua, (name, how, key, value): (String, String, LuaString, Value)| {
        let dict = find(&name);
        let key = key.as_bytes();
        let known = dict.lock().remove(&key);
        let (mut items, ttl) = match known {
            Some(Entry { stored: Stored::List(items), .. }) => (items, 0.0),
            Some(other) => {
                let _ = dict.set(&key, other.stored, 0.0, other.flags);
                return nil_and(lua, "value not a list");
            }
            None => (VecDeque::new(), 0.0),
        };
        let popped = match (&*how, Stored::of(&value)) {
            ("lpush", Some(item)) => {
                items.push_front(item);
                None
            }
            ("rpush", Some(item)) => {
                items.push_back(item);
                None
            }
            ("lpop", _) => items.pop_front(),
            ("rpop", _) => items.pop_back(),
            _ => None,
        };
        let length = items.len();
        if !items.is_empty()
            && let Err(why) = dict.set(&key, Stored::List(items), ttl, 0)
        {
            return nil_and(lua, why);
        }
        let result = match &*how {
            "lpop" | "rpop" => popped.map_or(Ok(Value::Nil), |item| item.lua(lua))?,
            #[expect(clippy::cast_precision_loss, reason = "far fewer")]
            _ => Value::Number(length as f64),
        };
        Ok(MultiValue::from_iter([result]))
    })
}
