//! A request as the tests make it up.

use model::var::{Var, VarSource};
use router::{Conditions, MethodSet, RequestFacts, RouteEntry};
use std::borrow::Cow;
use std::net::IpAddr;

/// A request made of plain values.
#[derive(Debug, Clone)]
pub(crate) struct Request<'a> {
    pub(crate) host: &'a [u8],
    pub(crate) path: &'a [u8],
    pub(crate) method: &'a [u8],
    pub(crate) ip: IpAddr,
    /// The value of every variable but `http_host`.
    pub(crate) value: Option<&'a [u8]>,
    /// The `Host` header as sent.
    pub(crate) host_header: &'a [u8],
}

impl<'a> Request<'a> {
    pub(crate) fn new(method: &'a str, host: &'a str, path: &'a str) -> Self {
        Self {
            host: host.as_bytes(),
            path: path.as_bytes(),
            method: method.as_bytes(),
            ip: IpAddr::from([127, 0, 0, 1]),
            value: None,
            host_header: host.as_bytes(),
        }
    }
}

impl VarSource for Request<'_> {
    fn var(&self, var: &Var) -> Option<Cow<'_, [u8]>> {
        match var {
            Var::Http(name) if name == "host" => Some(Cow::Borrowed(self.host_header)),
            _ => self.value.map(Cow::Borrowed),
        }
    }
}

impl RequestFacts for Request<'_> {
    fn host(&self) -> &[u8] {
        self.host
    }
    fn path(&self) -> &[u8] {
        self.path
    }
    fn method(&self) -> &[u8] {
        self.method
    }
    fn remote_ip(&self) -> IpAddr {
        self.ip
    }
}

/// An entry whose payload is its id.
pub(crate) fn entry(
    id: &str,
    hosts: &[&str],
    paths: &[&str],
    priority: i64,
    methods: &[&str],
) -> RouteEntry<String> {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    RouteEntry {
        id: id.to_owned(),
        hosts: owned(hosts),
        paths: owned(paths),
        priority,
        conditions: Conditions {
            methods: MethodSet::compile(&owned(methods)).expect("known methods"),
            ..Conditions::default()
        },
        payload: id.to_owned(),
    }
}
