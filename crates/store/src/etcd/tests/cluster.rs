//! Members that go away, and what is said when all are gone.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Server, store};
use crate::{Etcd, Store, StoreError};

async fn put(etcd: &Etcd, key: &str) -> Result<(), StoreError> {
    etcd.put(key, b"{}".as_slice().into(), None).await.map(drop)
}

/// Writes until it succeeds: what was refused in an election is tried again by whoever wrote it.
async fn put_until_done(etcd: &Etcd, key: &str) {
    let begin = Instant::now();
    while let Err(error) = put(etcd, key).await {
        assert!(begin.elapsed() < Duration::from_secs(30), "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn reads_and_writes_go_on_when_any_member_dies() {
    let mut members = Server::cluster(3);
    let endpoints: Vec<String> = members.iter().map(Server::endpoint).collect();
    let etcd = store(&endpoints, "/apisix");
    put_until_done(&etcd, "/routes/0").await;
    for (n, member) in members.iter_mut().enumerate() {
        member.kill();
        put_until_done(&etcd, &format!("/routes/{}", n + 1)).await;
        assert_eq!(etcd.list("").await.unwrap().entries.len(), n + 2);
        member.restart();
    }
}

#[tokio::test]
async fn nobody_there_is_said_at_once_and_nobody_answering_in_time() {
    let mut server = Server::start();
    let etcd = Etcd::new(crate::EtcdConfig {
        timeout: Duration::from_millis(500),
        ..super::config(&[server.endpoint()], "/apisix")
    });
    put_until_done(&etcd, "/routes/1").await;
    server.signal(Signal::STOP);
    let begin = Instant::now();
    assert!(matches!(put(&etcd, "/routes/2").await, Err(StoreError::Unknown(_))));
    assert!(begin.elapsed() < Duration::from_secs(2));
    server.signal(Signal::CONT);
    server.kill();
    let refused = put(&etcd, "/routes/3").await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_) | StoreError::Unknown(_))), "{refused:?}");
    let refused = put(&etcd, "/routes/3").await.unwrap_err();
    assert!(matches!(refused, StoreError::Unavailable(_)), "{refused:?}");
    assert!(refused.to_string().contains("can't be reached"), "{refused}");
    server.restart();
    put_until_done(&etcd, "/routes/3").await;
}
