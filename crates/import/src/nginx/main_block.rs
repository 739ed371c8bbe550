//! The outermost level: processes, events, `http`.

use super::Out;
use super::scope::Scope;
use super::tls::Tls;
use super::tree::Directive;
use super::{server, units, upstream};
use crate::Verdict;
use serde_json::{Value, json};

/// Translates a whole configuration.
pub(super) fn translate(out: &mut Out, directives: &[Directive]) {
    for directive in directives {
        match directive.name.as_str() {
            "events" => events(out, directive),
            "http" => http(out, directive),
            "stream" | "mail" => out.refuse(directive, "only `http` is translated"),
            _ => process(out, directive),
        }
    }
}

fn process(out: &mut Out, directive: &Directive) {
    let number = |text: &str| text.parse::<u64>().ok().map(Value::from);
    match directive.name.as_str() {
        "worker_processes" => {
            let value = number(directive.arg(0)).unwrap_or_else(|| json!("auto"));
            out.set("nginx_config.worker_processes", value);
            out.taken(directive, "nginx_config.worker_processes");
        }
        "worker_rlimit_nofile" => match number(directive.arg(0)) {
            Some(value) => {
                out.set("nginx_config.worker_rlimit_nofile", value);
                out.taken(directive, "nginx_config.worker_rlimit_nofile");
            }
            None => out.refuse(directive, "not a number"),
        },
        "error_log" => {
            out.set("nginx_config.error_log", json!(directive.arg(0)));
            if directive.args.len() > 1 {
                out.set("nginx_config.error_log_level", json!(directive.arg(1)));
            }
            out.taken(directive, "nginx_config.error_log");
        }
        "include" => out.note(directive, Verdict::Taken, "what the file holds follows"),
        "daemon" | "master_process" => {
            out.note(directive, Verdict::Ignored, "whoever starts Tidegate says so: `--daemon`");
        }
        "user" => out.note(directive, Verdict::Ignored, "Tidegate runs as the user who starts it"),
        "pid" | "lock_file" => out.note(directive, Verdict::Ignored, "the pid file is in the data directory"),
        "worker_cpu_affinity"
        | "worker_priority"
        | "worker_shutdown_timeout"
        | "pcre_jit"
        | "timer_resolution"
        | "thread_pool" => out.note(directive, Verdict::Ignored, ""),
        "load_module" => out.refuse(directive, "nginx's modules can't be loaded"),
        other => out.refuse(directive, format!("`{other}` is not known here")),
    }
}

fn events(out: &mut Out, events: &Directive) {
    out.taken(events, "");
    for directive in events.block() {
        match directive.name.as_str() {
            "worker_connections" => match directive.arg(0).parse::<u64>() {
                Ok(number) => {
                    out.set("nginx_config.event.worker_connections", json!(number));
                    out.taken(directive, "nginx_config.event.worker_connections");
                }
                Err(_) => out.refuse(directive, "not a number"),
            },
            "use" => out.note(directive, Verdict::Equivalent, "epoll is what there is"),
            "accept_mutex" => {
                out.note(directive, Verdict::Equivalent, "each worker has sockets of its own (SO_REUSEPORT)");
            }
            "multi_accept" | "accept_mutex_delay" | "debug_connection" | "worker_aio_requests" => {
                out.note(directive, Verdict::Ignored, "");
            }
            other => out.refuse(directive, format!("`{other}` is not known here")),
        }
    }
}

fn http(out: &mut Out, http: &Directive) {
    out.taken(http, "");
    let mut scope = Scope::default();
    let mut tls = Tls::default();
    // Settings first: they hold for servers that stand above them, too.
    for directive in http.block() {
        match directive.name.as_str() {
            "server" | "upstream" => {}
            name if name.starts_with("ssl_") => tls.take_for_all(out, directive),
            _ if scope.take(out, directive) => {}
            _ => everywhere(out, directive),
        }
    }
    let named = |name: &'static str| http.block().iter().filter(move |directive| directive.name == name);
    let upstreams: Vec<_> = named("upstream").map(|block| upstream::translate(out, block)).collect();
    let servers: Vec<_> = named("server").collect();
    server::translate_all(out, &scope, &tls, &servers, &upstreams);
}

/// Settings of `http` that hold for the whole process.
fn everywhere(out: &mut Out, directive: &Directive) {
    let to = |key: &str| format!("nginx_config.http.{key}");
    match directive.name.as_str() {
        "access_log" => access_log(out, directive),
        "log_format" => {
            let format = directive.args.iter().skip(1).filter(|arg| !arg.starts_with("escape=")).cloned();
            out.set(&to("access_log_format"), json!(format.collect::<String>()));
            if let Some(escape) = directive.args.iter().find_map(|arg| arg.strip_prefix("escape=")) {
                out.set(&to("access_log_format_escape"), json!(escape));
            }
            out.taken(directive, "nginx_config.http.access_log_format");
        }
        "keepalive_requests" => match directive.arg(0).parse::<u64>() {
            Ok(number) => {
                out.set(&to("keepalive_requests"), json!(number));
                out.taken(directive, "nginx_config.http.keepalive_requests");
            }
            Err(_) => out.refuse(directive, "not a number"),
        },
        "keepalive_timeout" | "client_header_timeout" | "client_body_timeout" | "send_timeout" => {
            match units::seconds(directive.arg(0)) {
                Some(time) => {
                    out.set(&to(&directive.name), units::number(time));
                    out.taken(directive, &to(&directive.name));
                }
                None => out.refuse(directive, "not a time"),
            }
        }
        "client_max_body_size" => match units::bytes(directive.arg(0)) {
            Some(size) => {
                out.set(&to("client_max_body_size"), json!(size));
                out.taken(directive, "nginx_config.http.client_max_body_size");
            }
            None => out.refuse(directive, "not a size"),
        },
        "server_tokens" => {
            out.set("apisix.enable_server_tokens", json!(directive.arg(0) != "off"));
            out.taken(directive, "apisix.enable_server_tokens");
        }
        "resolver" => {
            let servers: Vec<_> = directive.args.iter().filter(|arg| !arg.contains('=')).collect();
            out.set("apisix.dns_resolver", json!(servers));
            out.taken(directive, "apisix.dns_resolver");
        }
        other => out.refuse(directive, format!("`{other}` has no counterpart")),
    }
}

fn access_log(out: &mut Out, directive: &Directive) {
    if directive.arg(0) == "off" {
        out.set("nginx_config.http.enable_access_log", json!(false));
    } else {
        out.set("nginx_config.http.access_log", json!(directive.arg(0)));
    }
    out.taken(directive, "nginx_config.http.access_log");
}
