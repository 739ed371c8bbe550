//! The command line, as data.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::import;
use crate::serve::args::ServeArgs;
use stdx::Secret;

/// A drop-in for Apache APISIX in one binary.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start the gateway
    Start(StartArgs),
    /// Start on loopback addresses alone, with the Admin API on port 9080 too and a key that everybody knows
    Quickstart(StartArgs),
    /// End the running gateway at once
    Stop(CommonArgs),
    /// End the running gateway when its requests are answered
    Quit(CommonArgs),
    /// Make the running gateway read its configuration again
    Reload(ReloadArgs),
    /// Check the configuration
    Test(TestArgs),
    /// Serve a folder, or what an nginx configuration says
    Serve(Box<ServeArgs>),
    /// Translate another server's configuration
    Import {
        /// Whose it is.
        #[command(subcommand)]
        from: import::Source,
    },
    /// Tell what the running gateway would do with a request, and why
    Explain(ExplainArgs),
    /// Find what is allowed in the configuration and yet most likely a mistake
    Lint(LintArgs),
    /// Read, compare, write and check the whole configuration as a file
    #[command(subcommand)]
    Config(ConfigCommand),
    #[cfg(feature = "bench")]
    /// Measure how fast a server answers
    Bench(Box<crate::bench::BenchArgs>),
    /// Print what makes a shell complete this command's words
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the version
    Version(CommonArgs),
}

/// What every subcommand takes.
#[derive(Debug, Clone, Args)]
pub struct CommonArgs {
    /// The configuration file [default: conf/config.yaml if it is there, else the built-in defaults]
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where the store, the logs, the generated key and the pid file live
    #[arg(long, value_name = "DIR", default_value = "./tidegate-data", env = "TIDEGATE_DATA_DIR")]
    pub data_dir: PathBuf,
}

/// What reloading takes.
#[derive(Debug, Clone, Args)]
pub struct ReloadArgs {
    /// As every subcommand.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Check this nginx configuration first: what the running `tidegate serve --nginx-conf` reads
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub nginx_conf: Option<PathBuf>,
}

/// What testing takes.
#[derive(Debug, Clone, Args)]
pub struct TestArgs {
    /// As every subcommand.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Print the diagnostics as JSON
    #[arg(long)]
    pub json: bool,
}

/// What explaining takes.
#[derive(Debug, Clone, Args)]
pub struct ExplainArgs {
    /// As every subcommand.
    #[command(flatten)]
    pub common: CommonArgs,
    /// The request's method
    pub method: String,
    /// The request's URL, or its path and query alone
    pub url: String,
    /// A header of the request; may be given several times
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub headers: Vec<String>,
    /// The client's address [default: 127.0.0.1]
    #[arg(long, value_name = "IP")]
    pub remote_addr: Option<String>,
    /// The request's body
    #[arg(long, value_name = "TEXT")]
    pub body: Option<String>,
    /// The consumer as whom the client is authenticated
    #[arg(long, value_name = "NAME")]
    pub consumer: Option<String>,
    /// The control API to ask [default: that of the configuration file]
    #[arg(long, value_name = "IP:PORT")]
    pub control: Option<std::net::SocketAddr>,
    /// List the routes whose host or path does not match as well
    #[arg(long)]
    pub all: bool,
    /// Print the answer as JSON
    #[arg(long)]
    pub json: bool,
}

/// How the Admin API is reached.
#[derive(Debug, Clone, Args)]
pub struct AdminArgs {
    /// As every subcommand.
    #[command(flatten)]
    pub common: CommonArgs,
    /// The Admin API to ask [default: that of the configuration file]
    #[arg(long, value_name = "URL")]
    pub admin: Option<String>,
    /// Its key [default: that of the configuration file, or the one in the data directory]
    #[arg(long, env = "TIDEGATE_ADMIN_KEY", hide_env_values = true)]
    pub key: Option<Secret>,
    /// TLS with it.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// TLS with a server at `https://`.
#[derive(Debug, Clone, Default, Args)]
pub struct TlsArgs {
    /// Trust the certificate authorities in this file (PEM) [default: the system's, and those of this gateway for itself]
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CA_CERT")]
    pub ca_cert: Option<PathBuf>,
    /// Present this client certificate (PEM)
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CLIENT_CERT", requires = "client_key")]
    pub client_cert: Option<PathBuf>,
    /// The private key of the client certificate (PEM)
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CLIENT_KEY", requires = "client_cert")]
    pub client_key: Option<PathBuf>,
}

/// What linting takes.
#[derive(Debug, Clone, Args)]
pub struct LintArgs {
    /// How the Admin API is reached.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// A file to look at, instead of the running gateway
    #[arg(conflicts_with = "admin")]
    pub file: Option<PathBuf>,
    /// Fail for warnings too
    #[arg(long)]
    pub strict: bool,
}

/// What is done with a whole configuration.
#[derive(Debug, Clone, Subcommand)]
pub enum ConfigCommand {
    /// Print the running gateway's configuration as a file
    Dump(DumpArgs),
    /// Tell what `sync` would do
    Diff(SyncArgs),
    /// Make the running gateway's configuration that of the file, deleting what is not in it
    Sync(SyncArgs),
    /// Check a file without a gateway
    Validate(ValidateArgs),
    /// Print what config.yaml may have, for editors and readers
    Schema(SchemaArgs),
    /// Follow a config source that the running gateway rejects because it was emptied, restored or replaced
    Accept(AcceptArgs),
}

/// What printing the keys takes.
#[derive(Debug, Clone, Args)]
pub struct SchemaArgs {
    /// As a JSON Schema for editors, a page of Markdown, or a config.yaml with every key
    #[arg(long, value_enum, default_value_t)]
    pub format: SchemaFormat,
}

/// The form in which the keys are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum SchemaFormat {
    /// A JSON Schema, draft 7.
    #[default]
    JsonSchema,
    /// The reference page.
    Markdown,
    /// A `config.yaml`.
    Example,
}

/// What accepting takes.
#[derive(Debug, Clone, Args)]
pub struct AcceptArgs {
    /// How the Admin API is reached.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// Tell what would be accepted, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// What dumping takes.
#[derive(Debug, Clone, Args)]
pub struct DumpArgs {
    /// How the Admin API is reached.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// What is meant.
    #[command(flatten)]
    pub scope: ScopeArgs,
}

/// Which resources are meant; the others are neither read nor deleted.
#[derive(Debug, Clone, Default, Args)]
pub struct ScopeArgs {
    /// Only these collections, such as `routes`; may be given several times
    #[arg(long, value_name = "COLLECTION", value_delimiter = ',')]
    pub select: Vec<String>,
    /// Only resources with this label; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    pub label: Vec<String>,
}

/// What comparing and writing take.
#[derive(Debug, Clone, Args)]
pub struct SyncArgs {
    /// How the Admin API is reached.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// What is meant.
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// The file: APISIX's standalone form or ADC's, YAML or JSON
    pub file: PathBuf,
    /// Tell what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// What checking takes.
#[derive(Debug, Clone, Args)]
pub struct ValidateArgs {
    /// As every subcommand.
    #[command(flatten)]
    pub common: CommonArgs,
    /// The file: APISIX's standalone form or ADC's, YAML or JSON
    pub file: PathBuf,
    /// Refuse fields that nobody knows
    #[arg(long)]
    pub strict: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What starting takes.
#[derive(Debug, Clone, Args)]
pub struct StartArgs {
    /// As every subcommand.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Go to the background when the gateway is ready
    #[arg(long)]
    pub daemon: bool,
    /// Workers to run, whatever the configuration says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub worker_processes: Option<u16>,
    /// Set by the parent of a daemon for its child.
    #[arg(long, hide = true, conflicts_with = "daemon")]
    pub detached: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn each_subcommand_takes_a_configuration_file() {
        for name in ["start", "quickstart", "stop", "quit", "reload", "test", "version"] {
            assert!(Cli::try_parse_from(["tidegate", name, "-c", "a.yaml"]).is_ok(), "{name}");
        }
    }

    #[test]
    fn mistakes_of_usage_exit_with_2() {
        for line in ["", "frobnicate", "start --worker-processes 0", "test --daemon", "start -c"] {
            let error =
                Cli::try_parse_from(std::iter::once("tidegate").chain(line.split_whitespace())).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }
}
