//! One file for each top-level section, in the order of APISIX's example.

mod apisix;
mod centre;
mod data_encryption;
mod deployment;
mod discovery;
mod listening;
mod lua;
mod nginx;
mod node_listening;
mod plugins;
mod proxy_cache;
mod streams;
mod tls;

use crate::Context;
use crate::reader::Section;
use crate::settings::provider::{Provider, Role};
use crate::settings::{Admin, ProxyProtocol, Settings};
use document::Found;

/// Reads all sections, then checks what lies across them.
pub(super) fn read(root: &Section<'_>, context: &Context<'_>, found: &Found) -> Settings {
    let apisix = root.section("apisix");
    let nginx = root.section("nginx_config");
    let mut ports = listening::Ports::default();
    // In APISIX's order, so that a conflict is reported at the port that APISIX would name.
    let enabled = apisix.bool("enable_admin", true);
    let deployment = root.section("deployment");
    let (role, provider) = centre::read(&deployment, enabled);
    let enabled = enabled && role != Role::DataPlane;
    let admin = deployment::read(&deployment, enabled, context.reach, &mut ports);
    let mode = apisix.choice("proxy_mode", &streams::MODES, streams::MODES[0].1);
    let status = apisix::status(&apisix, &mut ports);
    let control = apisix::control(&apisix, &mut ports);
    let metrics = plugins::metrics(&root.section("plugin_attr").section("prometheus"), &mut ports);
    // Without HTTP its ports are nobody's.
    let mut unused = listening::Ports::default();
    let http = if mode.http { &mut ports } else { &mut unused };
    let mut proxy = apisix::proxy(&apisix, &root.section("graphql"), http);
    let mut tls = tls::tls(&apisix, http);
    let mut proxy_protocol = streams::proxy_protocol(&apisix, http);
    if !mode.http {
        proxy.listen.clear();
        tls.listen.clear();
        proxy_protocol = ProxyProtocol::default();
    }
    let streams = streams::streams(&apisix, &nginx, mode, &mut ports);
    let mut data_encryption = data_encryption::read(&apisix);
    if matches!(provider, Provider::Etcd(_)) {
        data_encryption::share(&mut data_encryption, &deployment, found);
    }
    let lua = lua::lua(&apisix, &nginx);
    for (key, built_in) in
        [("plugins", context.built_in.plugins), ("stream_plugins", context.built_in.stream_plugins)]
    {
        let in_lua = |name: &str| (context.built_in.in_lua)(&lua, name, key == "stream_plugins");
        plugins::check_names(root, key, built_in, in_lua);
    }
    ports.report_conflicts(found);
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    nginx::check_user(&nginx, rustix::process::geteuid().as_raw(), &accounts);
    Settings {
        role,
        provider,
        proxy,
        tls,
        proxy_protocol,
        streams,
        process: nginx::process(&nginx, apisix.bool("enable_dev_mode", false), context.variables, found),
        http: nginx::http(&nginx.section("http")),
        logs: nginx::logs(&nginx),
        files: apisix::files(&apisix),
        admin: admin.map(|admin| Admin { streams: mode.streams, ..admin }),
        data_encryption,
        proxy_cache: proxy_cache::read(&apisix),
        control,
        status,
        metrics,
        plugins: plugins::names(root, "plugins"),
        stream_plugins: plugins::names(root, "stream_plugins"),
        lua,
        plugin_attr: plugins::attributes(root),
        discovery: discovery::discovery(root),
    }
}
