//! The exchange that Lua code runs for: lent to the host's functions for as long as the VM runs.

use model::var::{Var, VarSource};
use plugin::{Exchange, Session, UpstreamResponse};
use stdx::lend::{Family, Lender};

struct Exchanges;
impl Family for Exchanges {
    type Of<'a> = Exchange<'a>;
}

/// An exchange that is only looked at: the log phase's, a public API's.
struct Seen<'a>(&'a dyn Reading);
struct SeenExchanges;
impl Family for SeenExchanges {
    type Of<'a> = Seen<'a>;
}

/// The variables of a request that has no route yet.
struct SeenVars<'a>(&'a dyn VarSource);
struct Variables;
impl Family for Variables {
    type Of<'a> = SeenVars<'a>;
}

struct Responses;
impl Family for Responses {
    type Of<'a> = UpstreamResponse<'a>;
}

struct Sessions;
impl Family for Sessions {
    type Of<'a> = SeenSession<'a>;
}

/// A session that is only looked at.
struct SeenSession<'a>(&'a dyn ReadingSession);

/// Hands a session to a function that takes any.
trait ReadingSession {
    fn read(&self, run: &mut dyn FnMut(&Session<'_>));
}

impl ReadingSession for Session<'_> {
    fn read(&self, run: &mut dyn FnMut(&Session<'_>)) {
        run(self);
    }
}

/// Hands a shared exchange to a function that takes any.
trait Reading {
    fn read(&self, run: &mut dyn FnMut(&Exchange<'_>));
}

impl Reading for Exchange<'_> {
    fn read(&self, run: &mut dyn FnMut(&Exchange<'_>)) {
        run(self);
    }
}

thread_local! {
    static EXCHANGE: Lender<Exchanges> = const { Lender::new() };
    static SEEN: Lender<SeenExchanges> = const { Lender::new() };
    static SESSION: Lender<Sessions> = const { Lender::new() };
    static VARS: Lender<Variables> = const { Lender::new() };
    static RESPONSE: Lender<Responses> = const { Lender::new() };
}

/// Runs `run`, during which `exchange` can be read and edited.
pub(crate) fn exchange<R>(exchange: &mut Exchange<'_>, run: impl FnOnce() -> R) -> R {
    EXCHANGE.with(|place| place.lend(exchange, run))
}

/// As [`exchange`], in the response phase.
pub(crate) fn response<R>(
    exchange: &mut Exchange<'_>,
    response: &UpstreamResponse<'_>,
    run: impl FnOnce() -> R,
) -> R {
    let mut response = *response;
    RESPONSE.with(|place| place.lend(&mut response, || self::exchange(exchange, run)))
}

/// Runs `run`, during which `exchange` can be read.
pub(crate) fn seen<R>(exchange: &Exchange<'_>, run: impl FnOnce() -> R) -> R {
    SEEN.with(|place| place.lend(&mut Seen(exchange), run))
}

/// Runs `run`, during which `session` can be read.
pub(crate) fn seen_session<R>(session: &Session<'_>, run: impl FnOnce() -> R) -> R {
    SESSION.with(|place| place.lend(&mut SeenSession(session), run))
}

/// Reads the session; `None` where there is none.
pub(crate) fn session<R>(run: impl FnOnce(&Session<'_>) -> R) -> Option<R> {
    let (mut run, mut result) = (Some(run), None);
    SESSION.with(|place| {
        place.with(|seen| seen.0.read(&mut |session| result = run.take().map(|run| run(session))))
    });
    result
}

/// Runs `run`, during which `vars` can be read.
pub(crate) fn vars<R>(vars: &dyn VarSource, run: impl FnOnce() -> R) -> R {
    VARS.with(|place| place.lend(&mut SeenVars(vars), run))
}

/// Reads a variable of a request that has no route yet; `None` where there is none.
pub(crate) fn var(var: &Var) -> Option<Option<Vec<u8>>> {
    VARS.with(|place| place.with(|vars| vars.0.var(var).map(|value| value.into_owned())))
}

/// Runs `run`, during which there is no exchange.
pub(crate) fn nothing<R>(run: impl FnOnce() -> R) -> R {
    EXCHANGE.with(|place| place.hide(|| SEEN.with(|seen| seen.hide(run))))
}

/// Reads the exchange.
///
/// # Errors
/// Where the code runs for none.
pub(crate) fn read<R>(run: impl FnOnce(&Exchange<'_>) -> R) -> mlua::Result<R> {
    let mut run = Some(run);
    let edited = EXCHANGE.with(|place| place.with(|exchange| run.take().map(|run| run(exchange))));
    if let Some(Some(result)) = edited {
        return Ok(result);
    }
    let mut result = None;
    SEEN.with(|place| {
        place.with(|seen| {
            seen.0.read(&mut |exchange| result = run.take().map(|run| run(exchange)));
        })
    });
    result.ok_or_else(unavailable)
}

/// Edits the exchange.
///
/// # Errors
/// Where the code runs for none, or may only look at it.
pub(crate) fn edit<R>(run: impl FnOnce(&mut Exchange<'_>) -> R) -> mlua::Result<R> {
    EXCHANGE.with(|place| place.with(|exchange| run(exchange))).ok_or_else(unavailable)
}

/// Whether there is an exchange that can be edited.
pub(crate) fn is_editable() -> bool {
    EXCHANGE.with(|place| place.with(|_| ())).is_some()
}

/// Looks at the response's head as its origin made it, in the response phase.
pub(crate) fn origin<R>(run: impl FnOnce(&UpstreamResponse<'_>) -> R) -> Option<R> {
    RESPONSE.with(|place| place.with(|response| run(response)))
}

fn unavailable() -> mlua::Error {
    mlua::Error::runtime("API disabled in the current context")
}
