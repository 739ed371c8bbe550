//! Lua plugins in APISIX's form: LuaJIT, the libraries that such plugins use, and the hooks that run them.
//!
//! A [`Host`] makes plugins' definitions of Lua modules and of code in resources. They are run by VMs of their own, one for
//! each worker (`vm`); a request's function runs in a coroutine (`run`), which waits where the function does, and reaches its
//! exchange through what is lent to the VM meanwhile (`lent`). The functions that plugins call are in `api` and, where
//! they need neither an exchange nor time, in `library`.

mod api;
mod bound;
mod code;
mod current;
mod dicts;
mod filter;
mod head;
mod hook;
mod host;
mod instance;
mod json;
mod lent;
pub mod library;
mod light;
mod make;
mod module;
mod phase;
mod route_filter;
mod run;
mod sandbox;
mod serverless;
mod settings;
mod vm;

#[cfg(test)]
mod tests;

pub use code::Code;
pub use dicts::SharedDicts;
pub use host::{Host, Refused};
pub use settings::{LuaSettings, MEMORY_BYTES_DEFAULT, TIME_SLICE_DEFAULT};
