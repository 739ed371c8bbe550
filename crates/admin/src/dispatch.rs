//! From path and method to the answer, with the headers that every answer has.

use crate::http::args::Args;
use crate::http::auth;
use crate::http::body::body;
use crate::http::call::Call;
use crate::http::manner::Manner;
use crate::http::respond::Answer;
use crate::http::target::Target;
use crate::read::{history, list, schemas};
use crate::validate::configs;
use crate::write::{delete, patch, put, txn};
use crate::{Admin, AdminRequest, AdminResponse, config_source, fleet, lint, reload, standalone};
use model::Kind;

impl Admin {
    /// Answers one request. Runs on a tokio runtime with time; never panics, whatever the request.
    pub async fn handle(&self, request: AdminRequest) -> AdminResponse {
        Box::pin(answer(self, &request)).await
    }
}

/// Answers a request.
async fn answer(admin: &Admin, request: &AdminRequest) -> AdminResponse {
    if let Err(refusal) = auth::check_address(&admin.settings, request.peer) {
        return refusal.with("Content-Type", "application/json");
    }
    if let Err(refusal) = auth::check_sender(&admin.settings, request) {
        return refusal.with("Content-Type", "application/json");
    }
    let cors = admin.settings.answers_cors(request);
    if cors && request.method == "OPTIONS" {
        return AdminResponse::empty(200)
            .with("Access-Control-Allow-Origin", "*")
            .with("Access-Control-Allow-Methods", "POST, GET, PUT, OPTIONS, DELETE, PATCH")
            .with("Access-Control-Max-Age", "3600")
            .with("Access-Control-Allow-Headers", "*")
            .with("Access-Control-Allow-Credentials", "true")
            .with("Content-Type", "text/plain");
    }
    let answer = Box::pin(fleet::waiting(admin, request, route(admin, request))).await;
    let mut answer = answer.unwrap_or_else(|refusal| refusal);
    if answer.headers.iter().all(|(name, _)| *name != "Content-Type") {
        answer = answer.with("Content-Type", "application/json");
    }
    if !cors {
        return answer;
    }
    answer
        .with("Access-Control-Allow-Origin", "*")
        .with("Access-Control-Allow-Credentials", "true")
        .with("Access-Control-Expose-Headers", "*")
        .with("Access-Control-Max-Age", "3600")
}

async fn route(admin: &Admin, request: &AdminRequest) -> Answer {
    let segments = request.segments();
    let not_found = || AdminResponse::error(404, "404 Route Not Found");
    let [prefix, api, rest @ ..] = segments.as_slice() else { return Err(not_found()) };
    if prefix != "apisix" || api != "admin" {
        return Err(not_found());
    }
    let method = request.method.as_str();
    let args = Args::parse(&request.query);
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    match (method, rest.as_slice()) {
        // A probe for whether there is an Admin API, which needs no key.
        ("HEAD", []) => return Ok(AdminResponse::empty(200)),
        (_, []) => return Err(not_found()),
        ("HEAD", ["configs"]) if admin.standalone.is_some() => {}
        _ if !["GET", "PUT", "POST", "DELETE", "PATCH"].contains(&method) => return Err(not_found()),
        _ => {}
    }
    let actor = auth::check_key(&admin.settings, request, &args)?;
    if let Some(standalone) = &admin.standalone
        && let answer @ Some(_) = standalone::route(admin, standalone, request, &rest).await
    {
        return answer.unwrap_or_else(|| Err(not_found()));
    }
    match (method, rest.as_slice()) {
        ("POST", ["configs", "validate"]) => configs::validate(admin, request, &args).await,
        ("POST", ["txn"]) => txn::run(admin, request, &args, actor).await,
        ("GET", ["txn"]) => Ok(txn::limits(admin)),
        (_, ["config_source", path @ ..]) => config_source::answer(admin, request, path, &args, actor).await,
        ("GET", ["lint"]) => lint::answer(admin).await,
        ("GET", ["history"]) => history::list(admin, &args).await,
        ("GET", ["history", revision]) => history::revision(admin, revision).await,
        ("POST", ["history", revision, "rollback"]) => {
            history::rollback(admin, request, &args, revision, actor).await
        }
        (method, ["txn" | "lint" | "history", ..]) => Err(AdminResponse::not_offered(method)),
        ("GET", ["plugins", "list"]) => schemas::plugin_names(admin, &args),
        ("PUT", ["plugins", "reload"]) => reload::plugins(&admin.registry).await,
        (method, ["plugins", "reload"]) => Err(AdminResponse::error(
            405,
            format!("please use PUT method to reload the plugins, {method} method is not allowed."),
        )),
        ("POST", ["schema", "validate", collection, ..]) => {
            schemas::validate(admin, request, &args, collection)
        }
        (method, [pseudo @ ("schema" | "plugins"), names @ ..]) => {
            if method != "GET" {
                return Err(AdminResponse::error(404, "not found"));
            }
            body(admin, request)?;
            args.ttl()?;
            let answer = schemas::read(admin, pseudo, names, &args);
            versioned(admin, answer)
        }
        (method, [collection, below @ ..]) => {
            refuse_streams(admin, collection)?;
            let target = Target::parse(collection, below)?;
            let call = Call {
                target,
                body: body(admin, request)?,
                args: &args,
                ttl: args.ttl()?,
                manner: Manner::of(request, &args),
                actor,
            };
            versioned(admin, resource(admin, method, call).await)
        }
        (_, []) => Err(not_found()),
    }
}

async fn resource(admin: &Admin, method: &str, call: Call<'_>) -> Answer {
    if !call.target.offers(method) {
        let message = format!("not supported `{method}` method for {}", call.target.kind.noun());
        return Err(AdminResponse::error(405, message));
    }
    match method {
        "GET" => list::get(admin, &call).await,
        "PUT" => put::put(admin, call).await,
        "POST" => put::post(admin, call).await,
        "PATCH" => patch::patch(admin, call).await,
        _ => delete::delete(admin, &call).await,
    }
}

/// Stream routes mean nothing to a gateway that was told to listen for no streams.
fn refuse_streams(admin: &Admin, collection: &str) -> Result<(), AdminResponse> {
    if collection != Kind::StreamRoute.collection() || admin.settings.streams {
        return Ok(());
    }
    Err(AdminResponse::error(400, "stream mode is disabled, can not add stream routes"))
}

/// What a resource answers carries the version of its shape; what is refused before that does not.
fn versioned(admin: &Admin, answer: Answer) -> Answer {
    let name = admin.settings.version.name();
    match answer {
        Ok(answer) => Ok(answer.with("X-API-VERSION", name)),
        Err(refusal) => Err(refusal.with("X-API-VERSION", name)),
    }
}
