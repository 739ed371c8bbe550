//! One etcd with others on it: what they write is read, and what no gateway can have written does no harm.

use super::super::members::Repeat;
use super::super::message::{PutRequest, Request, RequestOp, TxnRequest, TxnResponse};
use super::{Server, store};
use crate::etcd::fleet::{self, Member, Presence};
use crate::{Change, Etcd, KeyChange, Op, Store, Txn};

/// Writes a key as another program would.
async fn put_raw(etcd: &Etcd, key: &[u8], value: &[u8]) {
    let put = PutRequest { key: key.to_vec(), value: value.to_vec(), ..PutRequest::default() };
    let success = vec![RequestOp { request: Some(Request::Put(put)) }];
    let request = TxnRequest { success, ..TxnRequest::default() };
    let _: TxnResponse =
        etcd.0.members.call("/etcdserverpb.KV/Txn", &request, Repeat::IfUndone).await.unwrap();
}

#[tokio::test]
async fn what_others_write_is_read_and_what_means_nothing_is_skipped() {
    let server = Server::start();
    let etcd = store(&[server.endpoint()], "/apisix");
    put_raw(&etcd, b"/apisix/routes/", b"init_dir").await;
    put_raw(&etcd, b"/apisix/routes/1", b"{\"uri\":\"/a\"}").await;
    put_raw(&etcd, b"/apisix/routes/\xff", b"{}").await;
    put_raw(&etcd, b"/apisix2/routes/2", b"{}").await;
    let listing = etcd.list("").await.unwrap();
    let keys: Vec<&str> = listing.entries.iter().map(|entry| &*entry.key).collect();
    assert_eq!(keys, ["/routes/1"]);

    let mut changes = etcd.watch(listing.revision + 1).await.unwrap();
    put_raw(&etcd, b"/apisix/services/", b"init_dir").await;
    put_raw(&etcd, b"/apisix2/routes/2", b"{}").await;
    put_raw(&etcd, b"/apisix/routes/3", b"{}").await;
    let batch = changes.next().await.unwrap();
    let [Change::Put(entry)] = &batch.changes[..] else { panic!("{batch:?}") };
    assert_eq!(&*entry.key, "/routes/3");

    // Written under an account's name by us, and without any by others.
    etcd.put("/routes/4", b"{}".as_slice().into(), Some("ada")).await.unwrap();
    let history = etcd.history(None, 2).await.unwrap();
    assert_eq!(history[0].actor.as_deref(), Some("ada"));
    assert!(history[0].unix_ms.is_some());
    assert_eq!(history[1].keys, [KeyChange { key: "/routes/3".into(), deleted: false }]);
    assert_eq!(history[1].unix_ms, None);
}

#[tokio::test]
async fn a_large_store_is_listed_in_pages_as_of_one_revision() {
    let server = Server::start();
    let etcd = store(&[server.endpoint()], "/apisix");
    for chunk in 0..10 {
        let put = |n: usize| Op::Put {
            key: format!("/routes/{:04}", chunk * 120 + n),
            value: b"{}".as_slice().into(),
            ttl: None,
        };
        etcd.txn(Txn { then: (0..120).map(put).collect(), ..Txn::default() }).await.unwrap();
    }
    let listing = etcd.list("").await.unwrap();
    assert_eq!(listing.entries.len(), 1200);
    assert!(listing.entries.is_sorted_by(|a, b| a.key < b.key));
}

#[tokio::test]
async fn nodes_tell_how_far_they_are_and_leave() {
    let server = Server::start();
    let etcd = store(&[server.endpoint()], "/apisix");
    let member = |id: &str, revision| Member {
        id: id.to_owned(),
        host: "h".to_owned(),
        version: "1".to_owned(),
        revision,
    };
    let (mut a, mut b) = (Presence::new(), Presence::new());
    a.tell(&etcd, &member("a", 1)).await.unwrap();
    b.tell(&etcd, &member("b", 2)).await.unwrap();
    a.tell(&etcd, &member("a", 3)).await.unwrap();
    a.keep(&etcd).await.unwrap();
    assert_eq!(fleet::members(&etcd).await.unwrap(), [member("a", 3), member("b", 2)]);
    b.leave(&etcd).await;
    assert_eq!(fleet::members(&etcd).await.unwrap(), [member("a", 3)]);
    assert!(etcd.list("").await.unwrap().entries.is_empty(), "none of it is configuration");
}
