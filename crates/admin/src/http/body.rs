//! The body of a request: as bytes, within the limit, and as JSON.

use crate::http::args::Args;
use crate::http::auth;
use crate::http::json::parse;
use crate::{Admin, AdminRequest, AdminResponse};
use serde_json::{Value, json};

/// Largest body in bytes that holds a whole configuration: the largest document, written as JSON operations.
const CONFIG_BYTES_MAX: usize = 96 << 20;

impl Admin {
    /// Returns the largest body of a request in bytes. A whole configuration (`/configs`, and `/txn`, which can check
    /// one) may be as large as a configuration file, if the caller may use the API.
    #[must_use]
    pub fn body_limit(&self, request: &AdminRequest) -> usize {
        let limit = self.settings.body_limit;
        let path = request.path.trim_end_matches('/');
        if !["/admin/txn", "/admin/configs", "/admin/configs/validate"].iter().any(|end| path.ends_with(end))
        {
            return limit;
        }
        let admitted = auth::check_address(&self.settings, request.peer).is_ok()
            && auth::check_sender(&self.settings, request).is_ok()
            && auth::check_key(&self.settings, request, &Args::parse(&request.query)).is_ok();
        if admitted { limit.max(CONFIG_BYTES_MAX) } else { limit }
    }
}

/// The body as bytes; `None` where there is none.
pub(crate) fn raw_body<'a>(
    admin: &Admin,
    request: &'a AdminRequest,
) -> Result<Option<&'a [u8]>, AdminResponse> {
    let limit = admin.body_limit(request);
    let size = request.body_size.max(u64::try_from(request.body.len()).unwrap_or(u64::MAX));
    if size > u64::try_from(limit).unwrap_or(u64::MAX) {
        let message = format!(
            "invalid request body: request size {size} is greater than the maximum size {limit} allowed"
        );
        return Err(AdminResponse::error(400, message));
    }
    Ok((!request.body.is_empty()).then_some(&request.body))
}

/// The body as JSON; `None` where there is none.
pub(crate) fn body(admin: &Admin, request: &AdminRequest) -> Result<Option<Value>, AdminResponse> {
    let Some(body) = raw_body(admin, request)? else { return Ok(None) };
    parse(body).map(Some).map_err(|error| {
        let message = format!("invalid request body: {error}");
        AdminResponse::json(400, &json!({ "error_msg": message, "req_body": String::from_utf8_lossy(body) }))
    })
}
