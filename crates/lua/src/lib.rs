//! Lua plugins in APISIX's form: LuaJIT, the libraries that such plugins use, and the hooks that run them.

pub mod library;
