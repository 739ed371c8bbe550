//! The plugins: one file each, and the list of them.
//!
//! Everything about a plugin is in its file: documentation, configuration with its schema, compiled form, hooks, tests.

use plugin::PluginDef;

mod amount;
mod auth;
mod cloud_function;
mod compression;
mod decoding;
mod headers;
mod identity;
mod idle;
mod jose;
mod ldap;
mod limit_key;
pub mod logging;
mod random;
mod redis_policy;
mod request_copy;
mod service_call;
mod status;
mod text;

pub mod acl;
pub mod ai;
pub mod api_breaker;
pub mod attach_consumer_label;
pub mod authz_casbin;
pub mod authz_casdoor;
pub mod authz_keycloak;
pub mod aws_lambda;
pub mod azure_functions;
pub mod basic_auth;
pub mod batch_requests;
pub mod brotli;
pub mod cas_auth;
pub mod chaitin_waf;
pub mod clickhouse_logger;
pub mod client_control;
pub mod consumer_restriction;
pub mod cors;
pub mod csrf;
pub mod datadog;
pub mod degraphql;
pub mod dingtalk_auth;
pub mod echo;
pub mod elasticsearch_logger;
pub mod error_page;
pub mod example_plugin;
pub mod fault_injection;
pub mod feishu_auth;
pub mod file_logger;
pub mod forward_auth;
pub mod google_cloud_logging;
pub mod grpc_transcode;
pub mod grpc_web;
pub mod gzip;
pub mod hmac_auth;
pub mod http_logger;
pub mod ip_restriction;
pub mod jwe_decrypt;
pub mod jwt_auth;
pub mod key_auth;
pub mod lago;
pub mod ldap_auth;
pub mod ldap_auth_advanced;
pub mod limit_conn;
pub mod limit_count;
pub mod limit_req;
pub mod loggly;
pub mod loki_logger;
pub mod mocking;
pub mod mqtt_proxy;
pub mod multi_auth;
pub mod node_status;
pub mod oas_validator;
pub mod opa;
pub mod openfunction;
pub mod openid_connect;
pub mod openwhisk;
pub mod prometheus;
pub mod proxy_buffering;
pub mod proxy_cache;
pub mod proxy_control;
pub mod proxy_mirror;
pub mod proxy_rewrite;
pub mod public_api;
pub mod real_ip;
pub mod redirect;
pub mod referer_restriction;
pub mod request_id;
pub mod request_validation;
pub mod response_rewrite;
pub mod skywalking_logger;
pub mod sls_logger;
pub mod splunk_hec_logging;
pub mod syslog;
pub mod tcp_logger;
pub mod tencent_cloud_cls;
pub mod traffic_label;
pub mod traffic_split;
pub mod ua_restriction;
pub mod udp_logger;
pub mod uri_blocker;
pub mod wolf_rbac;
pub mod workflow;
pub mod zipkin;

/// All plugins of routes, in alphabetical order.
pub const ALL: &[fn() -> PluginDef] = &[
    acl::def,
    ai::def,
    api_breaker::def,
    attach_consumer_label::def,
    authz_casbin::def,
    authz_casdoor::def,
    authz_keycloak::def,
    aws_lambda::def,
    azure_functions::def,
    basic_auth::def,
    batch_requests::def,
    brotli::def,
    cas_auth::def,
    chaitin_waf::def,
    clickhouse_logger::def,
    client_control::def,
    consumer_restriction::def,
    cors::def,
    csrf::def,
    datadog::def,
    degraphql::def,
    dingtalk_auth::def,
    echo::def,
    elasticsearch_logger::def,
    error_page::def,
    example_plugin::def,
    fault_injection::def,
    feishu_auth::def,
    file_logger::def,
    forward_auth::def,
    google_cloud_logging::def,
    grpc_transcode::def,
    grpc_web::def,
    gzip::def,
    hmac_auth::def,
    http_logger::def,
    ip_restriction::def,
    jwe_decrypt::def,
    jwt_auth::def,
    key_auth::def,
    lago::def,
    ldap_auth::def,
    ldap_auth_advanced::def,
    limit_conn::def,
    limit_count::def,
    limit_req::def,
    loggly::def,
    loki_logger::def,
    mocking::def,
    multi_auth::def,
    node_status::def,
    oas_validator::def,
    opa::def,
    openfunction::def,
    openid_connect::def,
    openwhisk::def,
    prometheus::def,
    proxy_buffering::def,
    proxy_cache::def,
    proxy_control::def,
    proxy_mirror::def,
    proxy_rewrite::def,
    public_api::def,
    real_ip::def,
    redirect::def,
    referer_restriction::def,
    request_id::def,
    request_validation::def,
    response_rewrite::def,
    skywalking_logger::def,
    sls_logger::def,
    splunk_hec_logging::def,
    syslog::def,
    tcp_logger::def,
    tencent_cloud_cls::def,
    traffic_label::def,
    traffic_split::def,
    ua_restriction::def,
    udp_logger::def,
    uri_blocker::def,
    wolf_rbac::def,
    workflow::def,
    zipkin::def,
];

/// Those of stream routes, in alphabetical order.
pub const STREAM: &[fn() -> PluginDef] = &[
    ip_restriction::def,
    limit_conn::stream::def,
    mqtt_proxy::def,
    prometheus::def,
    syslog::def,
    traffic_split::def,
];

/// The definitions of [`ALL`].
#[must_use]
pub fn all() -> Vec<PluginDef> {
    ALL.iter().map(|def| def()).collect()
}

/// The definitions of [`STREAM`].
#[must_use]
pub fn stream() -> Vec<PluginDef> {
    STREAM.iter().map(|def| def()).collect()
}

#[cfg(test)]
mod tests;
