//! `tidegate config dump`: in the form of APISIX's standalone mode.

use super::scope::{KINDS, Scope};
use crate::admin_client::AdminClient;
use crate::cli::DumpArgs;
use crate::output::say;
use anyhow::Context;
use model::Kind;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Prints the running configuration.
///
/// # Errors
/// When the gateway can't be asked.
pub(crate) fn run(args: &DumpArgs) -> anyhow::Result<()> {
    let running = Scope::new(&args.scope)?.running(&AdminClient::new(&args.admin)?)?;
    let mut whole: Map<String, Value> = Map::new();
    for kind in KINDS {
        for resource in &running {
            let Some((found, id)) = Kind::parse_key(&resource.key) else { continue };
            if found != kind {
                continue;
            }
            let mut fields = resource.fields.clone();
            for time in ["create_time", "update_time"] {
                fields.shift_remove(time);
            }
            if kind != Kind::Consumer {
                fields.insert("id".to_owned(), id.into());
            }
            let collection = kind.parent().unwrap_or(kind).collection();
            let list = whole.entry(collection).or_insert_with(|| Value::Array(Vec::new()));
            list.as_array_mut().into_iter().for_each(|list| list.push(Value::Object(fields.clone())));
        }
    }
    if args.admin.json {
        return say(serde_json::to_string_pretty(&whole)?);
    }
    let mut text = String::new();
    for (collection, list) in whole {
        if collection == Kind::Ssl.collection() {
            writeln!(
                text,
                "# The Admin API shows no private keys. Where a certificate is unchanged, `sync` keeps its key."
            )?;
        }
        let one: Map<String, Value> = [(collection, list)].into_iter().collect();
        text += &serde_saphyr::to_string(&one).context("the configuration can't be written as YAML")?;
    }
    say(format_args!("{text}#END"))
}
