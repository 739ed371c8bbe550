//! A watch: etcd's events, put together into the revisions they came from.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::failure::Failure;
use super::grpc::Stream;
use super::keys::{Keys, revision, signed};
use super::message::{Event, WatchCreate, WatchRequest, WatchResponse};
use super::{Etcd, Inner, read};
use crate::{Batch, BoxFuture, StoreError, Watch};

/// How long etcd may take to say that a watch began.
const CREATED_WITHIN: Duration = Duration::from_secs(10);

/// A watch of the store's keys on one member. It ends with the connection: whoever needs more begins another one where
/// it ended.
pub(crate) struct Follow {
    etcd: Arc<Inner>,
    stream: Stream,
    assembly: Assembly,
    ready: VecDeque<Batch>,
    cluster: u64,
}

impl Follow {
    /// A watch of revision `from` and later.
    pub(crate) async fn start(etcd: &Etcd, from: u64) -> Result<Self, StoreError> {
        let from = from.max(1);
        let (key, range_end) = etcd.0.keys.range("");
        let create = WatchCreate {
            key,
            range_end,
            start_revision: signed(from),
            progress_notify: true,
            fragment: true,
        };
        let request = WatchRequest { create: Some(create) };
        let mut stream =
            etcd.0.members.stream("/etcdserverpb.Watch/Watch", &request).await.map_err(Failure::of_read)?;
        let created: Result<Option<WatchResponse>, Failure> = timeout(CREATED_WITHIN, stream.next())
            .await
            .unwrap_or_else(|_| Err(Failure::Lost("a watch was not begun in time".to_owned())));
        let created = match created {
            Ok(Some(created)) if created.created && !created.canceled => created,
            Ok(Some(refused)) => {
                let failure = Failure::Refused { code: 7, message: refused.cancel_reason };
                etcd.0.members.turn_away(&failure).await;
                return Err(failure.of_read());
            }
            Ok(None) => return Err(Failure::Lost("a watch ended as it began".to_owned()).of_read()),
            Err(failure) => {
                etcd.0.members.turn_away(&failure).await;
                return Err(failure.of_read());
            }
        };
        let header = created.header.unwrap_or_default();
        // etcd tells of compaction only when it comes to it, and the caller is to know now.
        if from <= revision(header.revision) && !read::is_kept(etcd, from).await? {
            return Err(StoreError::Compacted { oldest: read::oldest(etcd, from).await? });
        }
        let assembly = Assembly { keys: etcd.0.keys.clone(), events: Vec::new() };
        let (etcd, ready, cluster) = (Arc::clone(&etcd.0), VecDeque::new(), header.cluster_id);
        Ok(Self { etcd, stream, assembly, ready, cluster })
    }

    async fn advance(&mut self) -> Result<Batch, StoreError> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(batch);
            }
            let failure = match self.stream.next::<WatchResponse>().await {
                Ok(Some(answer)) if answer.compact_revision > 0 => {
                    return Err(StoreError::Compacted { oldest: revision(answer.compact_revision) });
                }
                Ok(Some(answer)) if answer.canceled => Failure::Refused {
                    code: 14,
                    message: format!("the watch has ended: {}", answer.cancel_reason),
                },
                Ok(Some(answer)) => {
                    self.assembly.take(answer.events, answer.fragment, &mut self.ready);
                    continue;
                }
                Ok(None) => Failure::Lost("the watch has ended".to_owned()),
                Err(failure) => failure,
            };
            self.etcd.members.turn_away(&failure).await;
            return Err(failure.of_read());
        }
    }
}

impl Watch for Follow {
    fn next(&mut self) -> BoxFuture<'_, Result<Batch, StoreError>> {
        Box::pin(self.advance())
    }

    fn cluster(&self) -> u64 {
        self.cluster
    }
}

/// Events of a revision that is not known to be complete: one that is large comes in several answers.
struct Assembly {
    keys: Keys,
    events: Vec<Event>,
}

impl Assembly {
    fn take(&mut self, events: Vec<Event>, goes_on: bool, ready: &mut VecDeque<Batch>) {
        for event in events {
            let other = self.events.first().is_some_and(|first| written(first) != written(&event));
            if other {
                self.finish(ready);
            }
            self.events.push(event);
        }
        if !goes_on {
            self.finish(ready);
        }
    }

    /// All events of the revision are there.
    fn finish(&mut self, ready: &mut VecDeque<Batch>) {
        let Some(first) = self.events.first() else { return };
        let revision = revision(written(first));
        let changes = self.events.drain(..).filter_map(|event| self.keys.change(event.kind == 1, &event.kv?));
        let changes: Vec<_> = changes.collect();
        if !changes.is_empty() {
            ready.push_back(Batch { revision, changes });
        }
    }
}

fn written(event: &Event) -> i64 {
    event.kv.as_ref().map_or(0, |kv| kv.mod_revision)
}

#[cfg(test)]
mod tests {
    use super::super::message::KeyValue;
    use super::*;

    fn put(key: &str, at: i64) -> Event {
        let kv = KeyValue { key: key.into(), create_revision: at, mod_revision: at, value: "{}".into() };
        Event { kind: 0, kv: Some(kv) }
    }

    #[test]
    fn events_of_one_revision_are_one_batch_also_when_they_come_in_pieces() {
        let mut assembly = Assembly { keys: Keys::new("/a"), events: Vec::new() };
        let mut ready = VecDeque::new();
        assembly.take(vec![put("/a/r/1", 5), put("/a/r/2", 6)], true, &mut ready);
        assert_eq!(ready.len(), 1, "6 may go on");
        assembly.take(vec![put("/a/r/3", 6)], false, &mut ready);
        let seen: Vec<_> = ready.iter().map(|batch| (batch.revision, batch.changes.len())).collect();
        assert_eq!(seen, [(5, 1), (6, 2)]);
        assembly.take(vec![put("/a/\n", 7)], false, &mut ready);
        assert_eq!(ready.len(), 2, "a revision without resources is none");
    }
}
