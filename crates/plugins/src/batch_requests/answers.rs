//! The answers to a batch, as the client gets them.

use plugin::{Answer, Flow, Reply, has_no_body};
use serde_json::{Map, Value, json};
use std::io;

/// Bytes of bodies that the answers to one batch hold.
const BODIES_MAX: usize = 16 << 20;

/// The answers so far, in the order of the requests.
#[derive(Default)]
pub(super) struct Answers {
    all: Vec<Value>,
    bytes: usize,
}

impl Answers {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The answer in place of one that didn't come: APISIX's.
    pub(super) fn add_timeout(&mut self) {
        self.all.push(json!({"status": 504, "reason": "upstream timeout"}));
    }

    /// Adds an answer and reads its body, unless the request was one without (`bodiless`). Whether reading timed out.
    pub(super) async fn add(&mut self, mut answer: Answer, bodiless: bool) -> bool {
        let mut fields = Map::new();
        for (name, value) in &answer.fields.0 {
            let value = Value::from(String::from_utf8_lossy(value));
            match fields.get_mut(name) {
                None => drop(fields.insert(name.clone(), value)),
                Some(Value::Array(values)) => values.push(value),
                Some(first) => *first = json!([first.take(), value]),
            }
        }
        let status = answer.status;
        let mut added = json!({"status": status, "reason": wire::reason(status), "headers": fields});
        let mut timed_out = false;
        if !bodiless && !has_no_body(status) {
            match self.body(&mut answer).await {
                Ok(body) => added["body"] = String::from_utf8_lossy(&body).into(),
                Err(error) => {
                    tracing::error!(%error, "batch-requests: reading the body of an answer failed");
                    timed_out = error.kind() == io::ErrorKind::TimedOut;
                    added["read_body_err"] = error.to_string().into();
                }
            }
        }
        self.all.push(added);
        timed_out
    }

    async fn body(&mut self, answer: &mut Answer) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(piece) = answer.next().await {
            let piece = piece?;
            if self.bytes + piece.len() > BODIES_MAX {
                // What was held of this one is given up.
                self.bytes -= body.len();
                return Err(io::Error::other(format!(
                    "the bodies of a batch have more than {BODIES_MAX} bytes"
                )));
            }
            self.bytes += piece.len();
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    pub(super) fn into_flow(self) -> Flow {
        let text = format!("{}\n", Value::Array(self.all));
        Flow::reply(Reply::text(200, text).with_header("Content-Type", "application/json"))
    }
}
