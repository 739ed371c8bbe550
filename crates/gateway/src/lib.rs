//! The binary's parts: the command line and what keeps a process in order.
//!
//! `main` parses the command line ([`cli`]) and hands it to [`command`], which reads the configuration ([`config`]),
//! claims the data directory ([`pidfile`]) and calls [`boot`], where the gateway itself is put together.

pub mod admin_client;
pub mod admin_key;
pub mod admin_tls;
pub mod assemble;
#[cfg(feature = "bench")]
pub mod bench;
pub mod boot;
pub mod builder_thread;
pub mod centre;
pub mod cli;
pub mod command;
pub mod cores;
pub mod daemon;
mod data_dir;
pub mod declarative;
pub mod encryption;
pub mod explain;
pub mod given;
pub mod health;
pub mod import;
pub mod key_file;
pub mod launch;
pub mod limits;
pub mod lint;
pub mod notify;
pub mod outcome;
mod output;
pub mod pidfile;
pub mod plan;
pub mod preflight;
pub mod process_plugins;
pub mod quickstart;
pub mod reload;
pub mod serve;
pub mod servers;
pub mod signals;
pub mod status;
