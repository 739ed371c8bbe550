//! The machine that a measurement runs on, and its state: what moves a figure and isn't the server's doing. What can't be
//! found out is left out, never guessed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::result::Environment;

/// Descriptors that a process needs besides its connections.
const SPARE_FILES: u64 = 64;

/// The processors' times since boot, in ticks.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuTimes {
    steal: u64,
    all: u64,
}

impl CpuTimes {
    /// Now; zeros where the kernel doesn't say.
    #[must_use]
    pub fn read() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().skip(1).map(|word| word.parse().unwrap_or(0)).collect();
        // user nice system idle iowait irq softirq steal; guests' times are part of user and nice.
        Self { steal: ticks.get(7).copied().unwrap_or(0), all: ticks.iter().take(8).sum() }
    }

    fn steal_percent_since(self, earlier: Self) -> Option<f64> {
        let all = self.all.saturating_sub(earlier.all);
        (all > 0).then(|| self.steal.saturating_sub(earlier.steal) as f64 / all as f64 * 100.0)
    }
}

/// What the machine is and was while measuring; `before` is from the beginning.
#[must_use]
pub fn environment(before: CpuTimes) -> Environment {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let logical = cpuinfo.lines().filter(|line| line.starts_with("processor")).count() as u32;
    let cores = cores(&cpuinfo);
    let uname = rustix::system::uname();
    let mut environment = Environment {
        machine: None,
        cpu_model: value(&cpuinfo, "model name").or_else(|| value(&cpuinfo, "CPU part")),
        architecture: Some(std::env::consts::ARCH.to_owned()),
        cores,
        logical_cpus: (logical > 0).then_some(logical),
        smt: smt(cores, logical),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        memory_bytes: memory(),
        os: os(),
        kernel: Some(uname.release().to_string_lossy().into_owned()),
        hypervisor: line("/sys/hypervisor/type").or_else(|| {
            cpuinfo.contains(" hypervisor").then(|| line("/sys/class/dmi/id/sys_vendor")).flatten()
        }),
        steal_percent: CpuTimes::read().steal_percent_since(before),
        ..Environment::default()
    };
    for entry in fs::read_dir("/sys/devices/system/cpu/vulnerabilities").into_iter().flatten().flatten() {
        if let Some(text) = line(entry.path()) {
            environment.mitigations.insert(entry.file_name().to_string_lossy().into_owned(), text);
        }
    }
    let files = getrlimit(Resource::Nofile).current.map_or("unlimited".into(), |files| files.to_string());
    environment.limits.insert("open_files".into(), files);
    for (name, path) in [
        ("cgroup_cpu", "/sys/fs/cgroup/cpu.max"),
        ("cgroup_memory", "/sys/fs/cgroup/memory.max"),
        ("somaxconn", "/proc/sys/net/core/somaxconn"),
        ("ephemeral_ports", "/proc/sys/net/ipv4/ip_local_port_range"),
    ] {
        if let Some(text) = line(path) {
            environment.limits.insert(name.into(), text.replace('\t', " "));
        }
    }
    environment
}

/// Raises the soft limit on open files where `connections` need it; a connection that is then still too many is told when
/// it is made.
pub fn raise_open_files(connections: usize) {
    let limit = getrlimit(Resource::Nofile);
    let wanted = connections as u64 + SPARE_FILES;
    if limit.current.is_some_and(|current| current < wanted) {
        let current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum: limit.maximum });
    }
}

/// How this process was called, secrets of headers left out.
#[must_use]
pub fn own_command_line() -> String {
    let mut words: Vec<String> = Vec::new();
    let mut header = false;
    for word in std::env::args_os().map(|word| word.to_string_lossy().into_owned()) {
        let shown = if header {
            match word.split_once(':') {
                Some((name, _)) => format!("{name}: ***"),
                None => word.clone(),
            }
        } else {
            word.clone()
        };
        header = matches!(word.as_str(), "-H" | "--header");
        words.push(if shown.contains([' ', '\'', '"', '<', '>', '&', '*']) {
            format!("'{}'", shown.replace('\'', "'\\''"))
        } else {
            shown
        });
    }
    words.join(" ")
}

fn line(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.lines().next()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn value(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

/// Pairs of socket and core that differ.
fn cores(cpuinfo: &str) -> Option<u32> {
    let pairs: BTreeSet<(String, String)> = cpuinfo
        .split("\n\n")
        .filter_map(|block| Some((value(block, "physical id")?, value(block, "core id")?)))
        .collect();
    (!pairs.is_empty()).then_some(pairs.len() as u32)
}

fn smt(cores: Option<u32>, logical: u32) -> Option<bool> {
    match line("/sys/devices/system/cpu/smt/active") {
        Some(active) => Some(active == "1"),
        None => cores.map(|cores| cores < logical),
    }
}

fn memory() -> Option<u64> {
    let kb = value(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal")?;
    kb.split_whitespace().next()?.parse::<u64>().ok().map(|kb| kb * 1024)
}

fn os() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let environment = environment(CpuTimes::default());
        assert!(environment.logical_cpus.is_some_and(|count| count > 0));
        assert!(environment.kernel.is_some() && environment.memory_bytes.is_some());
        assert!(environment.limits.contains_key("open_files"));
        assert!(environment.steal_percent.is_none_or(|percent| (0.0..=100.0).contains(&percent)));
    }

    #[test]
    fn threads_of_one_core_are_counted_once() {
        let text =
            "processor : 0\nphysical id : 0\ncore id : 0\n\nprocessor : 1\nphysical id : 0\ncore id : 0\n";
        assert_eq!(cores(text), Some(1));
        assert_eq!(cores("processor : 0\n"), None);
    }
}
