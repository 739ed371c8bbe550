//! The machine and the state it was in. What could not be found out is absent, never guessed.

use serde::{Deserialize, Serialize};

use super::Texts;

/// Everything about the machine that moves a figure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// The machine as a provider rents it, for prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// The processor's name, as `/proc/cpuinfo` or the source has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// `x86_64`, `aarch64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Physical cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Logical CPUs, at least as many as cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logical_cpus: Option<u32>,
    /// Whether two threads share a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smt: Option<bool>,
    /// The frequency governor (`performance`, `schedutil`, ..).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The operating system's name and version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// The kernel's release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The hypervisor, where there is one (`kvm`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// CPU vulnerabilities and what the kernel does about them, by name.
    #[serde(skip_serializing_if = "Texts::is_empty")]
    pub mitigations: Texts,
    /// CPU time that the hypervisor gave to others while measuring, in percent of all CPU time, 0 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steal_percent: Option<f64>,
    /// Limits that held: open files, the cgroup's CPU and memory, `somaxconn`, the ephemeral ports, ..
    #[serde(skip_serializing_if = "Texts::is_empty")]
    pub limits: Texts,
    /// Versions of the programs that took part, by program.
    #[serde(skip_serializing_if = "Texts::is_empty")]
    pub versions: Texts,
    /// Which CPUs each party ran on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pinning: Vec<Pin>,
    /// The command lines of all that took part, by party; `client` is the load generator's.
    #[serde(skip_serializing_if = "Texts::is_empty")]
    pub command_lines: Texts,
}

/// A machine as a provider rents it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// `Google Cloud`, `Microsoft Azure`, ..
    pub provider: String,
    /// The family, as `prices.toml` names it: `T2A`, `Ddsv5`, ..
    pub family: String,
    /// The size's name within the family (`standard-32`); nothing where the source does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Virtual CPUs; nothing where the source does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<u32>,
    /// The region, as the provider names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
}

/// One party and the CPUs it was bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// `client`, `upstream`, or a series' name.
    pub party: String,
    /// Logical CPUs by number, as the kernel counts them.
    pub cpus: Vec<u32>,
}
