//! The libraries by the names that `require` finds them by.

/// What runs when the VM is opened, in this order: the parts of the global tables.
pub(super) const GLOBALS: &[(&str, &str)] = &[
    ("table", include_str!("lua/shims.lua")),
    ("ngx", include_str!("lua/ngx.lua")),
    ("ngx.re", include_str!("lua/regex.lua")),
];

const CJSON: &str = include_str!("lua/cjson.lua");
const HASH: &str = include_str!("lua/hash.lua");
const LRUCACHE: &str = include_str!("lua/lrucache.lua");
const OPENSSL: &str = include_str!("lua/openssl.lua");
const JIT_UUID: &str = include_str!("lua/jit_uuid.lua");
const CONSTANTS: &str = include_str!("lua/core_constants.lua");
const SCHEMA: &str = include_str!("lua/core_schema.lua");

/// What runs when it is required. One file can be several libraries: it is told the name.
pub(super) const MODULES: &[(&str, &str)] = &[
    ("apisix.constants", CONSTANTS),
    ("apisix.core.id", CONSTANTS),
    ("apisix.core.ip", include_str!("lua/core_ip.lua")),
    ("apisix.core.json", include_str!("lua/core_json.lua")),
    ("apisix.core.lrucache", include_str!("lua/core_lrucache.lua")),
    ("apisix.core.math", CONSTANTS),
    ("apisix.core.schema", SCHEMA),
    ("apisix.core.string", include_str!("lua/core_string.lua")),
    ("apisix.core.table", include_str!("lua/core_table.lua")),
    ("apisix.core.utils", include_str!("lua/core_utils.lua")),
    ("apisix.core.version", CONSTANTS),
    ("apisix.schema_def", SCHEMA),
    ("cjson", CJSON),
    ("cjson.safe", CJSON),
    ("dkjson", include_str!("lua/dkjson.lua")),
    ("inspect", include_str!("lua/inspect.lua")),
    ("jit-uuid", JIT_UUID),
    ("net.url", include_str!("lua/net_url.lua")),
    ("ngx.base64", include_str!("lua/base64.lua")),
    ("ngx.process", include_str!("lua/process.lua")),
    ("ngx.re", include_str!("lua/re.lua")),
    ("pl.path", include_str!("lua/pl_path.lua")),
    ("pl.stringx", include_str!("lua/pl_stringx.lua")),
    ("pl.tablex", include_str!("lua/pl_tablex.lua")),
    ("pl.types", include_str!("lua/pl_types.lua")),
    ("resty.aes", include_str!("lua/aes.lua")),
    ("resty.cookie", include_str!("lua/cookie.lua")),
    ("resty.core.regex", include_str!("lua/core_regex.lua")),
    ("resty.expr.v1", include_str!("lua/expr.lua")),
    ("resty.hmac", include_str!("lua/hmac.lua")),
    ("resty.ipmatcher", include_str!("lua/ipmatcher.lua")),
    ("resty.jit-uuid", JIT_UUID),
    ("resty.jwt", include_str!("lua/jwt.lua")),
    ("resty.jwt-validators", include_str!("lua/jwt_validators.lua")),
    ("resty.lrucache", LRUCACHE),
    ("resty.lrucache.pureffi", LRUCACHE),
    ("resty.md5", HASH),
    ("resty.openssl.digest", OPENSSL),
    ("resty.openssl.hmac", OPENSSL),
    ("resty.openssl.mac", OPENSSL),
    ("resty.openssl.pkey", OPENSSL),
    ("resty.openssl.rand", OPENSSL),
    ("resty.random", include_str!("lua/random.lua")),
    ("resty.sha1", HASH),
    ("resty.sha224", HASH),
    ("resty.sha256", HASH),
    ("resty.sha384", HASH),
    ("resty.sha512", HASH),
    ("resty.string", include_str!("lua/string.lua")),
    ("socket.url", include_str!("lua/socket_url.lua")),
    ("tablepool", include_str!("lua/tablepool.lua")),
];
