//! The detection service: its nodes, and the connections to them.

use super::t1k::{Answer, FRAME_HEAD};
use crate::idle::Idle;
use model::ConfigError;
use plugin::{CompileContext, Exchange, Io, Services, UpstreamChoice};
use serde::Deserialize;
use serde_json::json;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use stdx::{Moment, PerWorker};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A node, as the metadata has it.
#[derive(Debug, Deserialize)]
pub(super) struct Node {
    host: String,
    #[serde(default = "port")]
    port: u16,
}

fn port() -> u16 {
    80
}

/// The detection service.
pub(super) struct Service {
    pub(super) nodes: Vec<(String, Place)>,
    pub(super) turn: AtomicUsize,
    pub(super) connect_timeout: Duration,
    pub(super) answer_timeout: Duration,
    pub(super) keep: usize,
    pub(super) idle: Duration,
    pub(super) workers: PerWorker<Arc<Idle<Connection>>>,
}

/// Where a node is.
#[derive(Clone)]
pub(super) enum Place {
    Network(UpstreamChoice),
    Socket(PathBuf),
}

/// A connection, and the node that it leads to.
pub(super) struct Connection {
    node: usize,
    stream: Box<dyn Io>,
}

impl Node {
    pub(super) fn compile(&self, cx: &CompileContext<'_>) -> Result<(String, Place), Vec<ConfigError>> {
        if let Some(path) = self.host.strip_prefix("unix:") {
            return Ok((self.host.clone(), Place::Socket(PathBuf::from(path))));
        }
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let upstream = cx.upstream(&json!({
            "type": "roundrobin",
            "scheme": "tcp",
            "pass_host": "node",
            "nodes": [{ "host": host, "port": self.port, "weight": 1 }],
            "retries": 0,
        }))?;
        Ok((self.host.clone(), Place::Network(upstream)))
    }
}

impl Service {
    /// The node whose turn it is, and the worker's connections.
    pub(super) fn next(&self, exchange: &Exchange<'_>) -> (usize, Arc<Idle<Connection>>) {
        let node = self.turn.fetch_add(1, Ordering::Relaxed) % self.nodes.len().max(1);
        (node, self.workers.with(exchange.worker, |idle| Arc::clone(idle)))
    }

    /// Asks `node`, over a connection that was kept or a new one.
    pub(super) async fn ask(
        &self,
        services: &Rc<dyn Services>,
        idle: &Arc<Idle<Connection>>,
        node: usize,
        question: &[u8],
    ) -> Result<Answer, String> {
        let kept = idle.take(Moment::now(), self.idle).filter(|kept| kept.node == node);
        if let Some(mut kept) = kept
            && let Ok(answer) = self.converse(&mut kept, question).await
        {
            idle.keep(kept, Moment::now(), self.keep);
            return Ok(answer);
        }
        // The one that was kept may have been closed long ago.
        let opened = match &self.nodes[node].1 {
            Place::Network(upstream) => services.connect(upstream, self.connect_timeout).await,
            Place::Socket(path) => services.connect_unix(path, self.connect_timeout).await,
        };
        let stream = opened.map_err(|error| format!("failed to connect to t1k server: {error}"))?;
        let mut connection = Connection { node, stream };
        let answer = self.converse(&mut connection, question).await?;
        idle.keep(connection, Moment::now(), self.keep);
        Ok(answer)
    }

    async fn converse(&self, connection: &mut Connection, question: &[u8]) -> Result<Answer, String> {
        let stream = &mut connection.stream;
        let conversation = async {
            let failed = |error: std::io::Error| format!("the connection to the t1k server failed: {error}");
            stream.write_all(question).await.map_err(failed)?;
            stream.flush().await.map_err(failed)?;
            let mut answer = Answer::default();
            loop {
                let mut head = [0; FRAME_HEAD];
                stream.read_exact(&mut head).await.map_err(failed)?;
                let (tag, length, last) = answer.begin(head)?;
                let mut data = vec![0; length];
                stream.read_exact(&mut data).await.map_err(failed)?;
                answer.take(tag, data);
                if last {
                    return Ok(answer);
                }
            }
        };
        let timed = tokio::time::timeout(self.answer_timeout, conversation).await;
        timed.unwrap_or_else(|_| Err("timed out while waiting for the t1k server".to_owned()))
    }
}
