//! The messages of etcd's API (`etcdserverpb`, `mvccpb`), as far as they are spoken here: fields that are never set or
//! read are left out, which the encoding allows.
//!
//! Written by hand so that building needs no `protoc`; the numbers are those of etcd 3.4's `rpc.proto` and have not
//! changed since, as the encoding demands.

use prost::{Message, Oneof};

/// On every answer.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Header {
    #[prost(uint64, tag = "1")]
    pub(crate) cluster_id: u64,
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(crate) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(crate) mod_revision: i64,
    #[prost(bytes = "bytes", tag = "5")]
    pub(crate) value: bytes::Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) limit: i64,
    #[prost(int64, tag = "4")]
    pub(crate) revision: i64,
    #[prost(int32, tag = "5")]
    pub(crate) sort_order: i32,
    #[prost(int32, tag = "6")]
    pub(crate) sort_target: i32,
    #[prost(bool, tag = "8")]
    pub(crate) keys_only: bool,
    #[prost(bool, tag = "9")]
    pub(crate) count_only: bool,
    #[prost(int64, tag = "11")]
    pub(crate) max_mod_revision: i64,
}

impl RangeRequest {
    /// `sort_order`: largest first.
    pub(crate) const DESCEND: i32 = 2;
    /// `sort_target`: the revision that wrote the value.
    pub(crate) const BY_MOD: i32 = 3;
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(crate) more: bool,
    #[prost(int64, tag = "4")]
    pub(crate) count: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) lease: i64,
    #[prost(bool, tag = "4")]
    pub(crate) prev_kv: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutResponse {
    #[prost(message, optional, tag = "2")]
    pub(crate) prev_kv: Option<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    #[prost(bool, tag = "3")]
    pub(crate) prev_kv: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRangeResponse {
    #[prost(message, repeated, tag = "3")]
    pub(crate) prev_kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestOp {
    #[prost(oneof = "Request", tags = "1, 2, 3, 4")]
    pub(crate) request: Option<Request>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Request {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
    #[prost(message, tag = "4")]
    Txn(TxnRequest),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseOp {
    #[prost(oneof = "Response", tags = "1, 2, 3")]
    pub(crate) response: Option<Response>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Response {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(PutResponse),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeResponse),
}

/// "The key's version, or the revision of its last change, is this one": `result` stays `EQUAL`, which is 0.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Compare {
    #[prost(int32, tag = "2")]
    pub(crate) target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) key: Vec<u8>,
    #[prost(oneof = "CompareTo", tags = "4, 6")]
    pub(crate) to: Option<CompareTo>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub(crate) enum CompareTo {
    #[prost(int64, tag = "4")]
    Version(i64),
    #[prost(int64, tag = "6")]
    ModRevision(i64),
}

impl Compare {
    /// The key is absent.
    pub(crate) fn absent(key: Vec<u8>) -> Self {
        Self { target: 0, key, to: Some(CompareTo::Version(0)) }
    }

    /// The key was last written by this revision; 0 for an absent one.
    pub(crate) fn written_by(key: Vec<u8>, revision: i64) -> Self {
        Self { target: 2, key, to: Some(CompareTo::ModRevision(revision)) }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub(crate) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(crate) responses: Vec<ResponseOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub(crate) revision: i64,
}

/// An answer of which nothing is read.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Done {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    pub(crate) ttl_s: i64,
}

/// Also the answer to a lease kept alive.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseResponse {
    #[prost(int64, tag = "2")]
    pub(crate) id: i64,
    #[prost(int64, tag = "3")]
    pub(crate) ttl_s: i64,
}

/// A lease to revoke or to keep alive.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseRequest {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) create: Option<WatchCreate>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchCreate {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) start_revision: i64,
    #[prost(bool, tag = "4")]
    pub(crate) progress_notify: bool,
    #[prost(bool, tag = "8")]
    pub(crate) fragment: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(bool, tag = "3")]
    pub(crate) created: bool,
    #[prost(bool, tag = "4")]
    pub(crate) canceled: bool,
    #[prost(int64, tag = "5")]
    pub(crate) compact_revision: i64,
    #[prost(string, tag = "6")]
    pub(crate) cancel_reason: String,
    #[prost(bool, tag = "7")]
    pub(crate) fragment: bool,
    #[prost(message, repeated, tag = "11")]
    pub(crate) events: Vec<Event>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Event {
    /// 0 for a put, 1 for a delete.
    #[prost(int32, tag = "1")]
    pub(crate) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) kv: Option<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub(crate) token: String,
}
