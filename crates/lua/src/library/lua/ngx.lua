-- The part of the global table `ngx` that needs neither a request nor waiting.

local native = ...
local ngx = ngx
local type, tostring, error, next, floor = type, tostring, error, next, math.floor

ngx.null = native.null

for name, value in next, {
  OK = 0, ERROR = -1, AGAIN = -2, DONE = -4, DECLINED = -5,
  STDERR = 0, EMERG = 1, ALERT = 2, CRIT = 3, ERR = 4, WARN = 5, NOTICE = 6, INFO = 7, DEBUG = 8,
  HTTP_GET = 2, HTTP_HEAD = 4, HTTP_POST = 8, HTTP_PUT = 16, HTTP_DELETE = 32, HTTP_MKCOL = 64, HTTP_COPY = 128,
  HTTP_MOVE = 256, HTTP_OPTIONS = 512, HTTP_PROPFIND = 1024, HTTP_PROPPATCH = 2048, HTTP_LOCK = 4096,
  HTTP_UNLOCK = 8192, HTTP_PATCH = 16384, HTTP_TRACE = 32768,
  HTTP_CONTINUE = 100, HTTP_SWITCHING_PROTOCOLS = 101, HTTP_OK = 200, HTTP_CREATED = 201, HTTP_ACCEPTED = 202,
  HTTP_NO_CONTENT = 204, HTTP_PARTIAL_CONTENT = 206, HTTP_SPECIAL_RESPONSE = 300, HTTP_MOVED_PERMANENTLY = 301,
  HTTP_MOVED_TEMPORARILY = 302, HTTP_SEE_OTHER = 303, HTTP_NOT_MODIFIED = 304, HTTP_TEMPORARY_REDIRECT = 307,
  HTTP_PERMANENT_REDIRECT = 308, HTTP_BAD_REQUEST = 400, HTTP_UNAUTHORIZED = 401, HTTP_PAYMENT_REQUIRED = 402,
  HTTP_FORBIDDEN = 403, HTTP_NOT_FOUND = 404, HTTP_NOT_ALLOWED = 405, HTTP_NOT_ACCEPTABLE = 406,
  HTTP_REQUEST_TIMEOUT = 408, HTTP_CONFLICT = 409, HTTP_GONE = 410, HTTP_UPGRADE_REQUIRED = 426,
  HTTP_TOO_MANY_REQUESTS = 429, HTTP_CLOSE = 444, HTTP_ILLEGAL = 451, HTTP_INTERNAL_SERVER_ERROR = 500,
  HTTP_METHOD_NOT_IMPLEMENTED = 501, HTTP_NOT_IMPLEMENTED = 501, HTTP_BAD_GATEWAY = 502,
  HTTP_SERVICE_UNAVAILABLE = 503, HTTP_GATEWAY_TIMEOUT = 504, HTTP_VERSION_NOT_SUPPORTED = 505,
  HTTP_INSUFFICIENT_STORAGE = 507,
} do
  ngx[name] = value
end

-- Most functions of OpenResty turn what isn't a string into one, and nil into an empty one.
local function text(value)
  if type(value) == "string" then
    return value
  elseif value == nil then
    return ""
  end
  return tostring(value)
end

local base64_encode, base64_decode = native.base64_encode, native.base64_decode

function ngx.encode_base64(value, no_padding)
  return base64_encode(text(value), no_padding and true or false)
end

function ngx.decode_base64(value)
  if type(value) ~= "string" then
    error("string argument only", 2)
  end
  return base64_decode(value)
end

local escape, unescape = native.escape, native.unescape

function ngx.escape_uri(value, kind)
  if kind ~= nil and (type(kind) ~= "number" or kind < 0 or kind > 6 or floor(kind) ~= kind) then
    error('"type" ' .. tostring(kind) .. " out of range", 2)
  end
  return escape(text(value), kind or 2)
end

function ngx.unescape_uri(value)
  return unescape(text(value))
end

local function put_argument(parts, name, value)
  if value == true then
    parts[#parts + 1] = name
  elseif type(value) == "string" or type(value) == "number" then
    parts[#parts + 1] = name .. "=" .. escape(tostring(value), 2)
  elseif value ~= false then
    error("attempt to use " .. type(value) .. " as query arg value", 4)
  end
end

function ngx.encode_args(arguments)
  if type(arguments) ~= "table" then
    error("bad argument #1 to 'encode_args' (table expected, got " .. (arguments == nil and "nil" or type(arguments))
      .. ")", 2)
  end
  local parts = {}
  for name, value in next, arguments do
    if type(name) ~= "string" and type(name) ~= "number" then
      error("attempt to use a non-string key in the \"args\" option table", 2)
    end
    name = escape(tostring(name), 2)
    if type(value) == "table" then
      for i = 1, #value do
        put_argument(parts, name, value[i])
      end
    else
      put_argument(parts, name, value)
    end
  end
  return table.concat(parts, "&")
end

function ngx.decode_args(value, max)
  if max ~= nil and (type(max) ~= "number" or not (max >= 0)) then
    error("bad argument #2 to 'decode_args' (number expected)", 2)
  end
  return native.decode_args(text(value), max and floor(math.min(max, 2 ^ 31)))
end

function ngx.quote_sql_str(value)
  return native.quote_sql(text(value))
end

local hash, hmac, to_hex = native.hash, native.hmac, native.to_hex

function ngx.md5(value)
  return to_hex(hash("md5", text(value)))
end

function ngx.md5_bin(value)
  return hash("md5", text(value))
end

function ngx.sha1_bin(value)
  return hash("sha1", text(value))
end

function ngx.hmac_sha1(key, value)
  return hmac("sha1", text(key), text(value))
end

function ngx.crc32_short(value)
  return native.crc32(text(value))
end

ngx.crc32_long = ngx.crc32_short

local now, calendar = native.now, native.calendar

ngx.now = now

-- The clock is read at each call, so there is nothing to update.
function ngx.update_time() end

function ngx.time()
  return floor(now())
end

function ngx.today()
  return calendar("%Y-%m-%d", false)
end

function ngx.localtime()
  return calendar("%Y-%m-%d %H:%M:%S", false)
end

function ngx.utctime()
  return calendar("%Y-%m-%d %H:%M:%S", true)
end

local function seconds(value, what)
  if type(value) ~= "number" then
    error("bad argument #1 to '" .. what .. "' (number expected, got " .. type(value) .. ")", 3)
  end
  return value
end

function ngx.http_time(value)
  return native.http_time(seconds(value, "http_time"))
end

function ngx.cookie_time(value)
  return native.cookie_time(seconds(value, "cookie_time"))
end

function ngx.parse_http_time(value)
  return native.parse_http_time(text(value))
end

ngx.worker = ngx.worker or {}

function ngx.worker.id()
  return native.worker_id
end

function ngx.worker.count()
  return native.worker_count
end

function ngx.worker.pid()
  return native.worker_pid
end

-- The versions of nginx and lua-nginx-module whose interface this is.
ngx.config = {
  subsystem = "http", debug = false, nginx_version = 1027001, ngx_lua_version = 10028,
  prefix = function()
    return native.prefix
  end,
  nginx_configure = function()
    return ""
  end,
}
