//! The zones of the configuration file.

use crate::fetch::locked;
use crate::{DiskSpec, Zone, ZoneSpec};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What is configured of zones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneSpecs {
    /// The zones; no two have one name.
    pub zones: Vec<ZoneSpec>,
    /// How long responses are fresh that don't say so themselves, in zones on disk.
    pub disk_ttl: Duration,
}

/// All zones. One is opened when it is first asked for: folders and threads are made for those in use alone.
#[derive(Default)]
pub struct Zones {
    specs: ZoneSpecs,
    open: Mutex<HashMap<String, Arc<Zone>>>,
}

/// Why there is no zone.
#[derive(Debug, thiserror::Error)]
pub enum ZoneError {
    /// None has this name.
    #[error("cache_zone {0} not found")]
    Unknown(String),
    /// It is of the other kind, on disk or in memory.
    #[error("invalid or empty cache_zone for cache_strategy: {0}")]
    OtherKind(&'static str),
    /// Its folder can't be used.
    #[error("cache_zone {0}: {1}")]
    Unusable(String, std::io::Error),
}

impl Zones {
    /// These zones.
    #[must_use]
    pub fn new(specs: ZoneSpecs) -> Self {
        Self { specs, open: Mutex::default() }
    }

    /// How long responses are fresh that don't say so themselves, in zones on disk.
    #[must_use]
    pub fn disk_ttl(&self) -> Duration {
        self.specs.disk_ttl
    }

    /// The zone called `name`, which has to be on disk or not.
    ///
    /// # Errors
    /// When there is none, or it can't be used.
    pub fn open(&self, name: &str, on_disk: bool) -> Result<Arc<Zone>, ZoneError> {
        let spec = self.specs.zones.iter().find(|spec| spec.name == name);
        let spec = spec.ok_or_else(|| ZoneError::Unknown(name.to_owned()))?;
        if spec.disk.is_some() != on_disk {
            return Err(ZoneError::OtherKind(if on_disk { "disk" } else { "memory" }));
        }
        let mut open = locked(&self.open);
        if let Some(zone) = open.get(name) {
            return Ok(Arc::clone(zone));
        }
        let zone = Zone::open(spec).map_err(|error| ZoneError::Unusable(name.to_owned(), error))?;
        open.insert(name.to_owned(), Arc::clone(&zone));
        Ok(zone)
    }
}

impl Default for ZoneSpecs {
    /// APISIX's.
    fn default() -> Self {
        const MB: u64 = 1 << 20;
        let path = PathBuf::from("/tmp/disk_cache_one");
        let disk = DiskSpec { path, bytes: 1024 * MB, levels: vec![1, 2] };
        let zone = |name: &str, disk| ZoneSpec { name: name.to_owned(), memory_bytes: 50 * MB, disk };
        let zones = vec![zone("disk_cache_one", Some(disk)), zone("memory_cache", None)];
        Self { zones, disk_ttl: Duration::from_secs(10) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_found_by_name_and_kind() {
        let spec = ZoneSpec { name: "m".to_owned(), memory_bytes: 1 << 20, disk: None };
        let specs = ZoneSpecs { zones: vec![spec], disk_ttl: Duration::from_secs(1) };
        let zones = Zones::new(specs);
        let first = zones.open("m", false).unwrap();
        assert!(Arc::ptr_eq(&first, &zones.open("m", false).unwrap()));
        let said = |name: &str, on_disk| zones.open(name, on_disk).map(drop).unwrap_err().to_string();
        assert_eq!(said("m", true), "invalid or empty cache_zone for cache_strategy: disk");
        assert_eq!(said("x", true), "cache_zone x not found");
    }
}
