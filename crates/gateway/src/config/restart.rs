//! Which changes of the configuration wait for a restart.
//!
//! A reload checks the whole file, opens the logs anew and applies `error_log_level`. Everything else was handed to its
//! part of the gateway at the start; a reload names it rather than let the operator believe that it holds.

use super::settings::{Http, Logs, Process, Proxy, Settings};

impl Settings {
    /// The names of those keys that differ in `new` and take effect at a restart alone.
    pub fn needs_restart(&self, new: &Settings) -> Vec<&'static str> {
        let sections = [
            proxy(&self.proxy, &new.proxy),
            process(&self.process, &new.process),
            http(&self.http, &new.http),
            logs(&self.logs, &new.logs),
            vec![
                ("deployment.admin", self.admin != new.admin),
                ("apisix.control", self.control != new.control),
                ("apisix.status", self.status != new.status),
                ("plugins", self.plugins != new.plugins),
                ("stream_plugins", self.stream_plugins != new.stream_plugins),
                ("plugin_attr", self.plugin_attr != new.plugin_attr || self.metrics != new.metrics),
            ],
        ];
        sections.into_iter().flatten().filter_map(|(name, differs)| differs.then_some(name)).collect()
    }
}

/// A key, and whether its value differs.
type Row = (&'static str, bool);

fn proxy(old: &Proxy, new: &Proxy) -> Vec<Row> {
    // The rest of the section is compared as one: its keys are many and seldom changed.
    let rest = |proxy: &Proxy| Proxy { listen: Vec::new(), ..proxy.clone() };
    vec![
        ("apisix.node_listen", old.listen != new.listen),
        ("apisix (keys besides node_listen)", rest(old) != rest(new)),
    ]
}

fn process(old: &Process, new: &Process) -> Vec<Row> {
    vec![
        ("nginx_config.worker_processes", old.workers != new.workers),
        ("nginx_config.enable_cpu_affinity", old.cpu_affinity != new.cpu_affinity),
        ("nginx_config.worker_rlimit_nofile", old.open_files != new.open_files),
        ("nginx_config.worker_shutdown_timeout", old.shutdown_timeout != new.shutdown_timeout),
        ("nginx_config.event.worker_connections", old.worker_connections != new.worker_connections),
    ]
}

fn http(old: &Http, new: &Http) -> Vec<Row> {
    let real_ip =
        |http: &Http| (http.real_ip_header.clone(), http.real_ip_recursive, http.real_ip_from.clone());
    vec![
        ("nginx_config.http.keepalive_timeout", old.keepalive_timeout != new.keepalive_timeout),
        ("nginx_config.http.keepalive_requests", old.keepalive_requests != new.keepalive_requests),
        ("nginx_config.http.client_header_timeout", old.client_header_timeout != new.client_header_timeout),
        ("nginx_config.http.client_body_timeout", old.client_body_timeout != new.client_body_timeout),
        ("nginx_config.http.client_max_body_size", old.client_max_body_size != new.client_max_body_size),
        ("nginx_config.http.send_timeout", old.send_timeout != new.send_timeout),
        (
            "nginx_config.http.underscores_in_headers",
            old.underscores_in_headers != new.underscores_in_headers,
        ),
        ("nginx_config.http.large_client_header_buffers", old.header_buffers != new.header_buffers),
        ("nginx_config.http.real_ip_*", real_ip(old) != real_ip(new)),
        ("nginx_config.http.upstream", old.upstream != new.upstream),
    ]
}

fn logs(old: &Logs, new: &Logs) -> Vec<Row> {
    vec![
        ("nginx_config.error_log", old.error_log != new.error_log),
        ("nginx_config.http.access_log*", old.access != new.access),
    ]
}
