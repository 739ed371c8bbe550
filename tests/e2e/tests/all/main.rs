//! The end-to-end tests: what the product promises, asked of its real binary.

#![expect(clippy::unwrap_used, reason = "tests")]

mod admin_access;
mod bench;
mod bodies;
mod body_filters;
mod caching;
mod caching_nginx;
mod caching_parts;
mod centre;
mod centre_crashes;
mod compressed;
mod connections;
mod counting;
mod declarative;
mod early_answers;
mod files;
mod grpc;
mod grpc_transcode;
mod grpc_web;
mod guides;
mod headers;
mod http2;
mod http2_floods;
mod leaving_clients;
mod life;
mod limits;
mod loggers;
mod logs;
mod protocol;
mod readme;
mod referees;
mod reload;
mod serve;
mod standalone;
mod streams;
mod study;
mod timeouts;
mod tls;
mod upstreams;
mod upstreams_changes;
mod upstreams_discovery;
mod upstreams_health;
mod upstreams_names;
mod upstreams_slow;
mod websocket;
