//! The bodies and response fields that entries need, kept while they pass.

use super::config::Config;
use super::headers;
use crate::decoding::Coded;
use model::ConfigError;
use model::var::BodyNeed;
use plugin::{BodyFilter, Exchange, Flow, UpstreamResponse, WholeBody};
use router::Expr;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// Which bodies are kept, and how much of them.
#[derive(Debug)]
pub(super) struct Bodies {
    request: Option<Rule>,
    response: Option<Rule>,
    /// A format has the request's body, whatever `include_req_body` says.
    pub(super) format_has_request: bool,
    pub(super) response_fields: bool,
    request_max: usize,
    response_max: usize,
}

/// A body that is to be in the entry, if the conditions hold.
#[derive(Debug)]
struct Rule(Option<Expr>);

/// What was seen of a response.
#[derive(Debug, Default)]
pub(super) struct SeenResponse {
    /// Its fields; empty where no entry needs them.
    pub(super) fields: Map<String, Value>,
    body: Option<Rc<RefCell<Vec<u8>>>>,
    coded: Option<Coded>,
    body_max: usize,
}

impl Bodies {
    pub(super) fn compile(config: &Config) -> Result<Self, Vec<ConfigError>> {
        let rule = |included: bool, expr: &Option<Value>, name: &str| {
            let worded = |error: ConfigError| {
                let message = format!("failed to validate the '{name}' expression: {}", error.message);
                ConfigError { message, ..error }.under(&format!("/{name}"))
            };
            let compile = |expr: &Value| {
                Expr::compile(expr).map_err(|errors| errors.into_iter().map(worded).collect::<Vec<_>>())
            };
            let expr = expr.as_ref().map(compile).transpose()?;
            Ok::<_, Vec<ConfigError>>(included.then_some(Rule(expr)))
        };
        let request = rule(config.include_req_body, &config.include_req_body_expr, "include_req_body_expr")?;
        let response =
            rule(config.include_resp_body, &config.include_resp_body_expr, "include_resp_body_expr")?;
        Ok(Self {
            request,
            response,
            format_has_request: false,
            response_fields: false,
            request_max: config.max_req_body_bytes,
            response_max: config.max_resp_body_bytes,
        })
    }

    pub(super) fn body_need(&self) -> BodyNeed {
        let rules = self.request.iter().chain(&self.response);
        rules.filter_map(|rule| rule.0.as_ref()).map(Expr::body_need).collect()
    }

    /// Has the request's body read where an entry needs it.
    pub(super) fn read_request(&self, exchange: &Exchange<'_>) -> Flow {
        let wanted =
            self.format_has_request || self.request.as_ref().is_some_and(|rule| rule.holds(exchange));
        match wanted && exchange.request.whole_body(self.request_max) == WholeBody::Unread {
            true => Flow::Body(self.request_max),
            false => Flow::Next,
        }
    }

    /// The request's body, as far as it was read.
    pub(super) fn request<'x>(&self, exchange: &'x Exchange<'_>) -> Option<&'x [u8]> {
        match exchange.request.whole_body(self.request_max) {
            WholeBody::Whole(body) => Some(body).filter(|body| !body.is_empty()),
            WholeBody::Unread | WholeBody::TooLong => None,
        }
    }

    /// The same, where the default entry is to have it.
    pub(super) fn included_request<'x>(&self, exchange: &'x Exchange<'_>) -> Option<&'x [u8]> {
        self.request.as_ref().filter(|rule| rule.holds(exchange)).and_then(|_| self.request(exchange))
    }

    /// Keeps of a response what an entry needs: its fields now, its body as it passes.
    pub(super) fn see_response(
        &self,
        exchange: &mut Exchange<'_>,
        response: &UpstreamResponse<'_>,
    ) -> SeenResponse {
        let mut seen = SeenResponse { body_max: self.response_max, ..SeenResponse::default() };
        if self.response_fields {
            seen.fields = headers::of_response(exchange, response);
        }
        if self.response.as_ref().is_some_and(|rule| rule.holds(exchange)) {
            let body = Rc::<RefCell<Vec<u8>>>::default();
            let copy = Copied { to: Rc::clone(&body), most: self.response_max };
            exchange.extras().body_filters.push(copy);
            seen.coded = Coded::of(response.header(b"content-encoding", exchange.reply_headers));
            seen.body = Some(body);
        }
        seen
    }
}

impl Rule {
    fn holds(&self, exchange: &Exchange<'_>) -> bool {
        self.0.as_ref().is_none_or(|expr| expr.eval(exchange))
    }
}

impl SeenResponse {
    /// The body, unpacked where that can be done.
    pub(super) fn body(&self) -> Option<Vec<u8>> {
        let body = self.body.as_ref()?.borrow().clone();
        let plain = self.coded.and_then(|coded| coded.decode_start(body.clone(), self.body_max).ok());
        Some(plain.unwrap_or(body))
    }
}

/// Keeps the beginning of a body that passes.
struct Copied {
    to: Rc<RefCell<Vec<u8>>>,
    most: usize,
}

impl BodyFilter for Copied {
    fn write(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let mut kept = self.to.borrow_mut();
        let room = self.most - kept.len();
        kept.extend_from_slice(&piece[..piece.len().min(room)]);
        out.extend_from_slice(piece);
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> io::Result<()> {
        Ok(())
    }

    fn changes(&self) -> bool {
        false
    }
}
