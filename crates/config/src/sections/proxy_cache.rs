//! `apisix.proxy_cache`: the zones that responses are kept in.

use crate::reader::{Field, Section};
use cache::{DiskSpec, ZoneSpec, ZoneSpecs};
use std::path::PathBuf;

pub(super) fn read(apisix: &Section<'_>) -> ZoneSpecs {
    let default = ZoneSpecs::default();
    let section = apisix.section("proxy_cache");
    let mut zones: Vec<ZoneSpec> = Vec::new();
    for field in section.list("zones").iter().flatten() {
        let Some(spec) = zone(field) else { continue };
        if zones.iter().any(|other| other.name == spec.name) {
            field.fail::<()>(
                format!("there are two zones called {}", spec.name),
                "give each a name of its own",
            );
        }
        zones.push(spec);
    }
    ZoneSpecs {
        zones: if section.field("zones").is_some() { zones } else { default.zones },
        disk_ttl: section.duration("cache_ttl", default.disk_ttl),
    }
}

fn zone(field: &Field<'_>) -> Option<ZoneSpec> {
    let section = field.as_section();
    let Some(name) = section.text("name") else {
        return field.fail("a zone needs a name", "add `name`");
    };
    Some(ZoneSpec {
        name: name.to_owned(),
        memory_bytes: section.size("memory_size", 50 << 20),
        disk: section.text("disk_path").map(|path| DiskSpec {
            path: PathBuf::from(path),
            bytes: section.size("disk_size", 1 << 30),
            levels: section
                .field("cache_levels")
                .and_then(|field| levels(&field))
                .unwrap_or_else(|| vec![1, 2]),
        }),
    })
}

/// nginx's form: one to three numbers, each 1 or 2.
fn levels(field: &Field<'_>) -> Option<Vec<usize>> {
    let text = field.text()?;
    let levels: Option<Vec<usize>> =
        text.split(':').map(|part| part.parse().ok().filter(|level| matches!(level, 1 | 2))).collect();
    match levels {
        Some(levels) if levels.len() <= 3 => Some(levels),
        _ => field
            .fail(format!("{text:?} names no levels of folders"), "write one to three of 1 and 2, as in 1:2"),
    }
}

#[cfg(test)]
mod tests {
    use crate::read_text;
    use cache::{DiskSpec, ZoneSpec, ZoneSpecs};
    use std::time::Duration;

    fn read(text: &str) -> Result<ZoneSpecs, String> {
        match read_text("f", text, &|_| None) {
            Ok(read) => Ok(read.settings.proxy_cache),
            Err(problems) => Err(format!("{problems:?}")),
        }
    }

    #[test]
    fn zones_are_those_that_are_named_or_apisixs() {
        assert_eq!(read(""), Ok(ZoneSpecs::default()));
        let text = "apisix: {proxy_cache: {cache_ttl: 1m, zones: [{name: m, memory_size: 1m},\n\
                    {name: d, memory_size: 2m, disk_size: 1G, disk_path: /d, cache_levels: \"2:1\"}]}}\n";
        let disk = DiskSpec { path: "/d".into(), bytes: 1 << 30, levels: vec![2, 1] };
        let zone = |name: &str, memory_bytes, disk| ZoneSpec { name: name.to_owned(), memory_bytes, disk };
        let zones = vec![zone("m", 1 << 20, None), zone("d", 2 << 20, Some(disk))];
        assert_eq!(read(text), Ok(ZoneSpecs { zones, disk_ttl: Duration::from_secs(60) }));
    }

    #[test]
    fn mistakes_are_named() {
        for (zones, message) in [
            ("[{memory_size: 1m}]", "a zone needs a name"),
            ("[{name: a}, {name: a}]", "two zones called a"),
            ("[{name: a, disk_path: /d, cache_levels: \"3\"}]", "names no levels"),
            ("[{name: a, memory_size: much}]", "expected a size"),
        ] {
            let error = read(&format!("apisix: {{proxy_cache: {{zones: {zones}}}}}\n")).expect_err(zones);
            assert!(error.contains(message), "{zones}: {error}");
        }
    }
}
