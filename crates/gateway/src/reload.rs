//! What SIGHUP and SIGUSR1 do while the gateway runs.

use crate::config::Settings;
use crate::launch::Launch;
use observe::{AccessLog, ErrorLog};
use std::sync::Arc;

/// What a reload works with.
#[derive(Debug)]
pub struct Reload {
    /// How the start was asked for.
    pub launch: Launch,
    /// The settings as the start read them, without what it added: what new ones are compared with.
    pub read: Settings,
    /// The process's error log.
    pub error_log: ErrorLog,
    /// The access log, where there is one.
    pub access_log: Option<Arc<AccessLog>>,
}

impl Reload {
    /// Opens the logs anew: what log rotation asks for.
    pub fn reopen_logs(&self) {
        if let Some(log) = &self.access_log {
            log.reopen();
        }
        if let Err(error) = self.error_log.reopen() {
            tracing::error!(%error, "can't open the error log anew; going on with the old file");
        }
    }

    /// Reads the configuration again and opens the logs anew. The error log's level is applied, and changes that need a
    /// restart are named; a configuration that is refused changes nothing.
    pub fn run(&self) {
        self.reopen_logs();
        let loaded = match self.launch.settings() {
            Ok(loaded) => loaded,
            Err(report) => {
                report.entries().for_each(|entry| tracing::error!("{entry}"));
                tracing::error!("the configuration is refused, nothing changes");
                return;
            }
        };
        self.error_log.set_level(loaded.settings.logs.level);
        loaded.warnings.entries().for_each(|entry| tracing::warn!("{entry}"));
        let waiting = self.read.needs_restart(&loaded.settings);
        if waiting.is_empty() {
            tracing::warn!("configuration read again");
        } else {
            tracing::warn!("configuration read again; these changes need a restart: {}", waiting.join(", "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Mode;
    use std::fs;

    #[test]
    fn findings_of_a_reload_reach_the_error_log_one_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config.yaml");
        let path = folder.path().join("error.log");
        let launch = Launch {
            mode: Mode::Normal,
            config: Some(config.clone()),
            data_dir: folder.path().to_owned(),
            workers: None,
            detached: true,
        };
        fs::write(&config, "apisix: {node_listen: 9080}\n").unwrap();
        let read = launch.settings().unwrap().settings;
        let (error_log, subscriber) = ErrorLog::open(&path, read.logs.level, false).unwrap();
        let reload = Reload { launch, read, error_log, access_log: None };
        tracing::subscriber::with_default(subscriber, || {
            for text in [
                "apisix: {node_listen: 9080}\n",
                "apisix: {node_lisen: 1}\nnginx_config: {http: {send_timeout: 1}}\n",
                "apisix: {node_listen: x}\nnginx_config: {error_log_level: loud}\n",
            ] {
                fs::write(&config, text).unwrap();
                reload.run();
            }
        });
        let log = fs::read_to_string(path).unwrap();
        let messages: Vec<_> = log.lines().map(|line| line.split_once(": ").unwrap().1).collect();
        let expected = [
            "configuration read again",
            "apisix.node_lisen: unknown key, ignored",
            "these changes need a restart: nginx_config.http.send_timeout",
            "apisix.node_listen: expected an integer",
            "nginx_config.error_log_level: expected one of",
            "the configuration is refused, nothing changes",
        ];
        assert_eq!(messages.len(), expected.len(), "{log}");
        for (message, expected) in messages.iter().zip(expected) {
            assert!(message.contains(expected), "{message} has {expected}");
        }
    }
}
