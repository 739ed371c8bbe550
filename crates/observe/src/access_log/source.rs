//! What the access log asks of a request.

use model::var::VarSource;
use std::time::Duration;

/// A finished request. The methods are the variables that nearly every log format has, in forms that cost nothing to
/// hand out; all others come by [`VarSource`].
pub trait LogSource: VarSource {
    /// `$remote_addr`
    fn remote_addr(&self) -> &[u8];
    /// `$request`: method, target and version, as sent; empty parts where there was no request line.
    fn request_line(&self) -> [&[u8]; 3];
    /// `$request_id`, `$apisix_request_id`: shown as 32 hexadecimal digits.
    fn request_id(&self) -> Option<u128>;
    /// `$status`; 0 where there was none.
    fn status(&self) -> u16;
    /// `$bytes_sent`
    fn bytes_sent(&self) -> u64;
    /// `$body_bytes_sent`
    fn body_bytes_sent(&self) -> u64;
    /// `$request_length`
    fn request_length(&self) -> u64;
    /// `$request_time`
    fn request_time(&self) -> Duration;
    /// `$http_host`, `$http_referer`, `$http_user_agent`
    fn header(&self, header: LogHeader) -> Option<&[u8]>;
    /// The `$upstream_` variables.
    fn upstream(&self) -> UpstreamFields<'_>;
}

/// Header fields that have a method's fast path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogHeader {
    /// `Host`
    Host,
    /// `Referer`
    Referer,
    /// `User-Agent`
    UserAgent,
}

/// The upstream's part of a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct UpstreamFields<'a> {
    /// `$upstream_addr`; empty where none was asked.
    pub addr: &'a [u8],
    /// `$upstream_status`; 0 where none answered.
    pub status: u16,
    /// `$upstream_response_time`
    pub response_time: Option<Duration>,
    /// `$upstream_scheme`
    pub scheme: &'a [u8],
    /// `$upstream_host`
    pub host: Option<&'a [u8]>,
    /// `$upstream_uri`; empty where the client's target was sent on as it was, as in APISIX.
    pub uri: &'a [u8],
}
