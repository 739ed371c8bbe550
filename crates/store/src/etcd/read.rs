//! What is read: one key, a listing as of one revision, a value of the past.

use super::Etcd;
use super::failure::Failure;
use super::keys::{revision, signed};
use super::members::Repeat;
use super::message::{Header, RangeRequest, RangeResponse};
use crate::{Entry, Listing, StoreError};

/// Entries asked for at once: 1 MiB of routes of 2 KiB.
const PAGE: i64 = 512;

/// How often a listing begins anew because its revision was compacted half-way.
const RESTARTS_MAX: usize = 5;

/// One range.
pub(crate) async fn range(etcd: &Etcd, request: &RangeRequest) -> Result<RangeResponse, Failure> {
    etcd.0.members.call("/etcdserverpb.KV/Range", request, Repeat::Freely).await
}

/// One entry, as of `at`; 0 for now.
pub(crate) async fn get(etcd: &Etcd, key: &str, at: i64) -> Result<Option<Entry>, Failure> {
    let request = RangeRequest { key: etcd.0.keys.to_etcd(key), revision: at, ..RangeRequest::default() };
    Ok(range(etcd, &request).await?.kvs.first().and_then(|kv| etcd.0.keys.entry(kv)))
}

/// The entry as it was right after `at`.
pub(crate) async fn value_at(etcd: &Etcd, key: &str, at: u64) -> Result<Option<Entry>, StoreError> {
    // 0 would ask for now, and before the first revision there was nothing.
    if at == 0 {
        return Ok(None);
    }
    match get(etcd, key, signed(at)).await {
        Err(failure) if failure.is_future() => Err(StoreError::Future { newest: newest(etcd).await? }),
        Err(failure) if failure.is_compacted() => {
            Err(StoreError::Compacted { oldest: oldest(etcd, at).await? })
        }
        answer => answer.map_err(Failure::of_read),
    }
}

/// All entries under `prefix`, page by page, all as of the first page's revision.
pub(crate) async fn list(etcd: &Etcd, prefix: &str) -> Result<Listing, StoreError> {
    let mut restarts = 0;
    loop {
        match pages(etcd, prefix).await {
            Err(failure) if failure.is_compacted() && restarts < RESTARTS_MAX => restarts += 1,
            answer => return answer.map_err(Failure::of_read),
        }
    }
}

async fn pages(etcd: &Etcd, prefix: &str) -> Result<Listing, Failure> {
    let (first, range_end) = etcd.0.keys.range(prefix);
    let mut request = RangeRequest { key: first, range_end, limit: PAGE, ..RangeRequest::default() };
    let (mut entries, mut cluster) = (Vec::new(), 0);
    loop {
        let page = range(etcd, &request).await?;
        let header = page.header.unwrap_or_default();
        if request.revision == 0 {
            request.revision = header.revision;
            cluster = header.cluster_id;
        } else if header.cluster_id != cluster {
            let message = "members of different clusters answered one listing".to_owned();
            return Err(Failure::Refused { code: 14, message });
        }
        entries.extend(page.kvs.iter().filter_map(|kv| etcd.0.keys.entry(kv)));
        match page.kvs.last() {
            // The least key after it.
            Some(last) if page.more => request.key = [&last.key[..], &[0]].concat(),
            _ => return Ok(Listing { revision: revision(request.revision), entries, cluster }),
        }
    }
}

/// The header of an answer that costs etcd nothing, to a request which every account that reads resources may make.
pub(crate) async fn header(etcd: &Etcd, at: i64) -> Result<Header, Failure> {
    let request = RangeRequest {
        key: etcd.0.keys.to_etcd("/"),
        revision: at,
        count_only: true,
        ..RangeRequest::default()
    };
    Ok(range(etcd, &request).await?.header.unwrap_or_default())
}

/// The newest revision.
pub(crate) async fn newest(etcd: &Etcd) -> Result<u64, StoreError> {
    Ok(revision(header(etcd, 0).await.map_err(Failure::of_read)?.revision))
}

/// The oldest revision that is kept, which is above `gone`: halved towards, as etcd names it only where a watch fails.
pub(crate) async fn oldest(etcd: &Etcd, gone: u64) -> Result<u64, StoreError> {
    let (mut gone, mut kept) = (gone, newest(etcd).await?);
    while gone + 1 < kept {
        let middle = gone + (kept - gone) / 2;
        if is_kept(etcd, middle).await? {
            kept = middle;
        } else {
            gone = middle;
        }
    }
    Ok(kept)
}

/// Whether the state after `at` can still be asked for.
pub(crate) async fn is_kept(etcd: &Etcd, at: u64) -> Result<bool, StoreError> {
    match header(etcd, signed(at)).await {
        Ok(_) => Ok(true),
        Err(failure) if failure.is_compacted() => Ok(false),
        Err(failure) => Err(failure.of_read()),
    }
}
