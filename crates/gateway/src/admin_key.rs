//! The Admin API's key that is made at the first start where the configuration names none.

use std::path::Path;

use crate::key_file::{self, Generated};
use config::Settings;
use config::settings::{AdminKey, AdminRole};

/// The name of the file in the data directory.
const NAME: &str = "admin.key";

/// Adds the generated key where the Admin API needs one and the configuration names none. Returns what was added.
pub fn ensure(settings: &mut Settings, data_dir: &Path) -> anyhow::Result<Option<Generated>> {
    let Some(admin) = settings.admin.as_mut().filter(|admin| admin.key_required) else { return Ok(None) };
    // The quick start has a published key as well, which opens less than a key of one's own.
    let known = admin.on_data_ports;
    let suffices =
        |key: &AdminKey| key.role == AdminRole::Admin && !(known && admin::is_well_known(&key.key));
    if admin.keys.iter().any(suffices) {
        return Ok(None);
    }
    let generated = key_file::read_or_make(data_dir.join(NAME), "the admin key")?;
    let key = generated.key.to_string();
    admin.keys.push(AdminKey { name: "admin".into(), key, role: AdminRole::Admin });
    Ok(Some(generated))
}
