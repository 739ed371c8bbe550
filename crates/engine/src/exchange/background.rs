//! An upstream asked behind a client's back: the client has got a kept response, and a fresh one is fetched for those who
//! come later.

use super::body::RequestBody;
use super::origin::{self, Origin};
use super::respond::Message;
use super::{begin, forwarded_lines, relay};
use crate::buffers::Scratch;
use crate::link::Link;
use crate::timer::attach;
use crate::transport::Stream;
use crate::worker::Worker;
use plugin::{Client, Exchange, HeaderEdits, Keeper, Request, RequestEdits, UpstreamChoice};
use snapshot::{Route, Snapshot};
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use wire::{BodyLength, RequestHead, RequestView};

/// Errands of one worker at one time. Each has the buffers of a request, 104 KiB, so they take 26 MiB at most; what is not
/// fetched now is with the next request for it.
const ERRANDS_MAX: usize = 256;

/// What is left to do for a request that has been answered.
struct Errand {
    /// The request's head, and the bytes that it was received in.
    head: RequestHead,
    bytes: Vec<u8>,
    path: Vec<u8>,
    edits: Option<Box<RequestEdits>>,
    upstream: Option<UpstreamChoice>,
    client: Client,
    snapshot: Arc<Snapshot>,
    route: Arc<Route>,
    keeper: Box<dyn Keeper>,
}

/// Asks the upstream on behalf of the exchange's keeper, if it has left one. The plugins have had their say: their edits
/// count, and they don't run again before the upstream is asked.
pub(super) fn start(
    link: &Link<'_>,
    snapshot: &Arc<Snapshot>,
    route: &Arc<Route>,
    exchange: &mut Exchange<'_>,
) {
    let Some(extras) = &mut exchange.extras else { return };
    let Some(keeper) = extras.keeper.take() else { return };
    let Some(worker) = link.worker.this() else { return };
    let view = exchange.request.view;
    if view.head.facts.body != BodyLength::None || worker.errands.get() >= ERRANDS_MAX {
        return;
    }
    let errand = Errand {
        head: view.head.clone(),
        bytes: view.bytes.get(..view.head.length).unwrap_or_default().to_vec(),
        path: exchange.request.path.to_vec(),
        edits: exchange.request.edits.clone(),
        upstream: extras.upstream.clone(),
        client: link.client.named(link.client.addr),
        snapshot: Arc::clone(snapshot),
        route: Arc::clone(route),
        keeper,
    };
    drop(tokio::task::spawn_local(async move {
        worker.errands.set(worker.errands.get() + 1);
        errand.run(&worker).await;
        worker.errands.set(worker.errands.get().saturating_sub(1));
    }));
}

impl Errand {
    async fn run(self, worker: &Rc<Worker>) {
        let Self { head, bytes, path, edits, upstream, client, snapshot, route, keeper } = self;
        let registration = worker.timers.register();
        attach(&registration.timer).await;
        let config = worker.config();
        let mut scratch = worker.buffers.take_scratch();
        let Scratch { input, response, out, .. } = &mut *scratch;
        let forwarded = forwarded_lines(&client);
        let mut link = Link {
            worker,
            config: &config,
            stream: &mut Stream::Nowhere,
            client: &client,
            timer: &registration.timer,
            forwarded: &forwarded,
            trusted: config.trusts(client.peer),
            number: 1,
        };
        let view = RequestView { head: &head, bytes: &bytes };
        let mut request = Request::new(view, Cow::Owned(path), view.host());
        request.edits = edits;
        let mut reply_headers = HeaderEdits::default();
        let mut exchange = begin(&link, &snapshot, request, &mut reply_headers);
        exchange.route = Some(&route.info);
        exchange.extras().upstream = upstream;
        exchange.extras().keeper = Some(keeper);
        let mut message = Message::new(&snapshot, response, out);
        let mut body = RequestBody::new(input, 0, &head.facts, 0);
        if let Origin::Upstream(route, upstream) = origin::choose(&link, &snapshot, Some(&route), &exchange) {
            relay::run(&mut link, &mut message, &mut body, &mut exchange, route, &upstream).await;
        }
        worker.buffers.put_scratch(scratch);
    }
}
