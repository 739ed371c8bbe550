//! Which changes of the configuration wait for a restart.
//!
//! A reload puts everything in force but what the control plane's servers and the threads are made of. That is named
//! here: an operator must not believe that it holds.

use super::Settings;

impl Settings {
    /// The names of those keys that differ in `new` and take effect at a restart alone.
    pub fn needs_restart(&self, new: &Settings) -> Vec<&'static str> {
        let (old, admin) = (self, |settings: &Settings| {
            settings.admin.as_ref().map(|admin| (admin.listen, admin.on_data_ports))
        });
        let rows = [
            (
                "deployment.role, config_provider, etcd",
                (old.role, &old.provider) != (new.role, &new.provider),
            ),
            ("apisix.enable_admin, deployment.admin.admin_listen", admin(old) != admin(new)),
            ("apisix.data_encryption, apisix.lru", old.data_encryption != new.data_encryption),
            ("apisix.proxy_cache", old.proxy_cache != new.proxy_cache),
            ("apisix.control", old.control != new.control),
            ("apisix.status", old.status != new.status),
            (
                "apisix.dns_resolver, dns_resolver_valid, resolver_timeout, enable_resolv_search_opt",
                old.proxy.names != new.proxy.names,
            ),
            ("discovery", old.discovery != new.discovery),
            ("nginx_config.worker_processes", old.process.workers != new.process.workers),
            ("nginx_config.enable_cpu_affinity", old.process.cpu_affinity != new.process.cpu_affinity),
            // It is raised while the gateway runs, and never lowered.
            ("nginx_config.worker_rlimit_nofile", old.process.open_files > new.process.open_files),
            ("nginx_config.error_log", old.logs.error_log != new.logs.error_log),
            ("plugin_attr.prometheus.export_addr", old.metrics.listen != new.metrics.listen),
            ("plugin_attr.prometheus.export_uri", old.metrics.uri != new.metrics.uri),
            ("plugin_attr.prometheus.default_buckets", old.metrics.buckets != new.metrics.buckets),
        ];
        rows.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::read_text;

    #[test]
    fn servers_and_threads_wait_and_nothing_else_does() {
        let read = |text: &str| read_text("f", text, &|_| None).unwrap().settings;
        let old = read("");
        let live = "apisix: {node_listen: 9081, ssl: {listen: [{port: 9444}]}, show_upstream_status_in_response_header: true, trusted_addresses: [10.0.0.0/8],\n\
                    enable_server_tokens: false, router: {http: radixtree_uri}}\n\
                    nginx_config: {error_log_level: info, worker_shutdown_timeout: 5s, on_panic: exit, worker_rlimit_nofile: 40000,\n\
                    event: {worker_connections: 99},\n\
                    http: {send_timeout: 1, access_log: a.log, upstream: {keepalive: 3}}}\n\
                    deployment: {admin: {allow_admin: [10.0.0.0/8], admin_key: [{name: a, key: secret-of-a, role: admin}]}}\n\
                    plugins: [prometheus]\n\
                    plugin_attr: {prometheus: {metric_prefix: p_}}\n";
        assert_eq!(old.needs_restart(&read(live)), [""; 0]);
        for (text, names) in [
            ("apisix: {enable_admin: false}\n", "apisix.enable_admin, deployment.admin.admin_listen"),
            ("apisix: {enable_status: false}\n", "apisix.status"),
            (
                "apisix: {dns_resolver: [127.0.0.1]}\n",
                "apisix.dns_resolver, dns_resolver_valid, resolver_timeout, enable_resolv_search_opt",
            ),
            ("nginx_config: {enable_cpu_affinity: true}\n", "nginx_config.enable_cpu_affinity"),
            ("discovery: {dns: {servers: [127.0.0.1]}}\n", "discovery"),
            ("nginx_config: {worker_processes: 7}\n", "nginx_config.worker_processes"),
            ("nginx_config: {worker_rlimit_nofile: 1}\n", "nginx_config.worker_rlimit_nofile"),
            ("nginx_config: {error_log: e.log}\n", "nginx_config.error_log"),
            (
                "plugin_attr: {prometheus: {export_uri: /m, default_buckets: [1]}}\n",
                "plugin_attr.prometheus.export_uri, plugin_attr.prometheus.default_buckets",
            ),
        ] {
            assert_eq!(old.needs_restart(&read(text)).join(", "), names, "{text}");
        }
    }
}
