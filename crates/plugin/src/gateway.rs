//! The process, as plugins see it.

/// What is the same for every request of the process.
#[derive(Debug, Clone, Default)]
pub struct Gateway {
    /// This machine's name: `$hostname`.
    pub hostname: String,
    /// What tells this gateway from the others of its fleet.
    pub id: String,
    /// This process: `$pid`.
    pub pid: u32,
    /// Random bits chosen at start, so that request ids of two processes differ.
    pub seed: u64,
    /// The field in which a proxy before it names the client (`real_ip_header`); `None` where that is no field.
    pub real_ip_header: Option<String>,
    /// The port on which it speaks TLS with HTTP's clients, the first of several.
    pub https_port: Option<u16>,
}
