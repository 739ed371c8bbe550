//! No two consumers or credentials may have the same key of an auth plugin: requests could not tell whose they are.

use crate::Admin;
use crate::http::target::Target;
use crate::validate::mistakes::Mistakes;
use model::schema::refers_to_secret;
use model::{Kind, PluginMap};
use plugin::Registry;
use serde_json::{Map, Value};
use store::StoreError;

/// Checks that nobody else has a key that stands in `plugins`.
pub(crate) async fn check(
    admin: &Admin,
    target: &Target<'_>,
    owner: Option<&str>,
    plugins: &PluginMap,
    found: &mut Mistakes,
) -> Result<(), StoreError> {
    let keys: Vec<Key<'_>> =
        plugins.iter().filter_map(|(plugin, config)| Key::of(&admin.registry, plugin, config)).collect();
    let Some(owner) = owner.filter(|_| !keys.is_empty()) else { return Ok(()) };
    let own_id = target.id.map(|id| target.whole_id(id));
    for entry in admin.store.list(&Kind::Consumer.key("")).await?.entries {
        let Some((kind, id)) = Kind::parse_key(&entry.key) else { continue };
        let (consumer, credential) = Kind::Credential.split_id(id).unwrap_or((id, ""));
        // A consumer may repeat what its credentials say; a credential repeats nobody.
        let same = match target.kind {
            Kind::Credential => own_id.as_deref() == Some(id),
            _ => consumer == owner,
        };
        if same {
            continue;
        }
        let Ok(mut holder) = serde_json::from_slice::<Map<String, Value>>(&entry.value) else { continue };
        admin.open(&entry.key, &mut holder);
        let Some(theirs) = holder.get("plugins").and_then(Value::as_object) else { continue };
        for key in keys.iter().filter(|key| key.stands_in(theirs)) {
            let whose = match kind {
                Kind::Credential => format!("credential: {credential} of consumer: {consumer}"),
                _ => format!("consumer: {consumer}"),
            };
            let Key { plugin, field, .. } = key;
            found.push(
                format!("/plugins/{}/{field}", plugin.replace('~', "~0").replace('/', "~1")),
                format!("duplicate {field} of plugin {plugin} found with {whose}"),
            );
        }
    }
    Ok(())
}

/// What an auth plugin knows a consumer by.
struct Key<'a> {
    plugin: &'a str,
    /// The field that holds it.
    field: &'a str,
    text: &'a str,
}

impl<'a> Key<'a> {
    /// `None` where there is none, or a reference to one that is looked up later.
    fn of(registry: &Registry, plugin: &'a str, config: &'a Value) -> Option<Self> {
        let credential = registry.compile_credential(plugin, config).ok()?;
        let texts = config.as_object()?.iter().filter_map(|(field, value)| Some((field, value.as_str()?)));
        let mut keys = texts.filter(|(_, text)| text.as_bytes() == credential.key());
        let (field, text) = keys.next().filter(|(_, text)| !refers_to_secret(text))?;
        Some(Self { plugin, field, text })
    }

    fn stands_in(&self, plugins: &PluginMap) -> bool {
        let other = plugins.get(self.plugin).and_then(|config| config.get(self.field));
        other.and_then(Value::as_str) == Some(self.text)
    }
}
