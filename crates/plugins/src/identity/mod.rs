//! What plugins have in common that ask identity servers: calls, encoded forms, sessions in cookies, ways back.

mod ask;
mod cached;
mod cookies;
mod form;
mod return_path;
mod servers;
mod session;
mod work_login;

pub(crate) use ask::{ANSWER_MAX, ask, ask_json, post_form, post_json, shown};
pub(crate) use cached::Cached;
pub(crate) use cookies::{CookieAttributes, SameSite, cleared, set_cookie};
pub(crate) use form::{encode_args, escape};
pub(crate) use return_path::is_local;
pub(crate) use servers::Servers;
pub(crate) use session::{Session, Sessions, random_text};
pub(crate) use work_login::{Step, WorkLogin, WorkLoginConfig};
