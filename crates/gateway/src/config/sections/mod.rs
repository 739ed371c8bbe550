//! One file for each top-level section, in the order of APISIX's example.

mod apisix;
mod deployment;
mod listening;
mod nginx;
mod plugins;

use super::Reach;
use super::env::Lookup;
use super::problem::Problems;
use super::read::Section;
use super::settings::Settings;

/// Reads all sections, then checks what lies across them.
pub(super) fn read(root: &Section<'_>, lookup: Lookup<'_>, reach: Reach, problems: &Problems) -> Settings {
    let apisix = root.section("apisix");
    let nginx = root.section("nginx_config");
    let mut ports = listening::Ports::default();
    // In APISIX's order, so that a conflict is reported at the port that APISIX would name.
    let enabled = apisix.bool("enable_admin", true);
    let admin = deployment::read(&root.section("deployment"), enabled, reach, &mut ports);
    let status = apisix::status(&apisix, &mut ports);
    let control = apisix::control(&apisix, &mut ports);
    let metrics = plugins::metrics(&root.section("plugin_attr").section("prometheus"), &mut ports);
    let proxy = apisix::proxy(&apisix, &root.section("graphql"), &mut ports);
    ports.report_conflicts(problems);
    Settings {
        proxy,
        process: nginx::process(&nginx, apisix.bool("enable_dev_mode", false), lookup, problems),
        http: nginx::http(&nginx.section("http")),
        logs: nginx::logs(&nginx),
        admin,
        control,
        status,
        metrics,
        plugins: plugins::names(root, "plugins"),
        stream_plugins: plugins::names(root, "stream_plugins"),
        plugin_attr: plugins::attributes(root),
    }
}
