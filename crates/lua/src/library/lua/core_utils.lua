-- apisix.core.utils, without what waits: `sleep` is `ngx.sleep`'s, `dns_parse` isn't there.

local native = ...
local core_string = require("apisix.core.string")
local ngx_re = require("ngx.re")
local ipmatcher = require("resty.ipmatcher")
local type, tonumber, tostring, ipairs = type, tonumber, tostring, ipairs
local find, match, sub, byte, format, gsub = string.find, string.match, string.sub, string.byte, string.format, string.gsub
local re_gsub = ngx.re.gsub

local _M = { version = 0.2, parse_ipv4 = ipmatcher.parse_ipv4, parse_ipv6 = ipmatcher.parse_ipv6 }

local function seed()
  local value = 0
  for _, part in ipairs({ byte(native.random_bytes(8), 1, 8) }) do
    value = value * 256 + part
  end
  return value
end
_M.get_seed_from_urandom = seed

function _M.split_uri(uri)
  return ngx_re.split(uri, "/")
end

-- A host and a port, or nil for the port. Brackets of IPv6 stay; without brackets an IPv6 address has no port.
function _M.parse_addr(text)
  if byte(text) == 91 then
    local host, port = match(text, "^(%[.*%]):([^:]*)$")
    if not host then
      return text, nil
    end
    return host, tonumber(port)
  end
  local _, colons = gsub(match(text, "^[^.]*"), ":", "")
  if colons > 1 then
    return text, nil
  end
  -- A colon at the end begins no port.
  local at = core_string.rfind_char(text, ":", #text - 1)
  if not at then
    return text, nil
  end
  return sub(text, 1, at - 1), tonumber(sub(text, at + 1))
end

-- As nginx escapes a URI: `/`, `&` and `=` stay.
function _M.uri_safe_encode(uri)
  return native.escape(uri, 7)
end

function _M.escape_uri_control_chars(uri)
  return (gsub(uri, "%c", function(char)
    return format("%%%02X", byte(char))
  end))
end

-- Visible ASCII but the colon.
function _M.validate_header_field(field)
  return not find(field, "[^!-9;-~]")
end

-- Printable ASCII. What isn't a string becomes one later.
function _M.validate_header_value(value)
  return type(value) ~= "string" or not find(value, "[^ -~]")
end

function _M.gethostname()
  return native.hostname
end

function _M.sleep(seconds)
  return ngx.sleep(seconds)
end

local VARIABLE = [[(?<!\\)\$(\{\s*([^}]+?)\s*\}|([\w\.]+))]]

-- Replaces `$name`, `${name}` and `${name ?? default}` by the values in `vars`. Returns the text, nil and the number of
-- variables that had a value.
function _M.resolve_var(template, vars, escape)
  if not template or not find(template, "$", 1, true) then
    return template, nil, 0
  end
  local count = 0
  local text, _, err = re_gsub(template, VARIABLE, function(m)
    local name = m[2] or m[3]
    local variable, default = match(name, "^(.-)%s*%?%?%s*(.*)$")
    local value = vars[variable or name]
    if value == nil then
      value = default
    end
    if value == nil then
      return ""
    end
    count = count + 1
    value = tostring(value)
    return escape and escape(value) or value
  end, "jo")
  if not text then
    return nil, err
  end
  return text, nil, count
end

-- Replaces `$1` or `${1}` by captures of `ngx.re.match`.
function _M.resolve_var_with_captures(template, captures)
  if not template or not find(template, "$", 1, true) then
    return template, nil
  end
  captures = captures or {}
  local text, _, err = re_gsub(template, [[(?<!\\)\$\{?(\d+)\}?]], function(m)
    return captures[tonumber(m[1])] or ""
  end, "jo")
  if not text then
    return nil, err
  end
  return text, nil
end

local function warn(...)
  if ngx.log then
    ngx.log(ngx.WARN, ...)
  end
end

-- The value at a path of names with dots between them.
local function at_path(conf, path)
  for name in string.gmatch(path, "[^.]+") do
    if type(conf) ~= "table" then
      return nil
    end
    conf = conf[name]
  end
  return conf
end

-- Warns of endpoints without TLS.
function _M.check_https(fields, conf, plugin_name)
  for _, field in ipairs(fields) do
    local value = at_path(conf, field)
    for _, url in ipairs(type(value) == "table" and value or { value }) do
      if type(url) == "string" and sub(url, 1, 5) ~= "https" then
        warn("Using ", plugin_name, " ", field, " with no TLS is a security risk")
      end
    end
  end
end

-- Warns of checks of certificates that are off.
function _M.check_tls_bool(fields, conf, plugin_name)
  for _, field in ipairs(fields) do
    local value = at_path(conf, field)
    if value ~= true and value ~= nil then
      warn("Keeping ", field, " disabled in ", plugin_name, " configuration is a security risk")
    end
  end
end

function _M.set_var_rate_limiting_info(ctx, key, limit, remaining, reset)
  if ctx then
    ctx.var.rate_limiting_info = format(
      '{"rate_limiting_key":"%s","rate_limiting_limit":%d,"rate_limiting_remaining":%d,"rate_limiting_reset":%d}',
      key or "", limit or 0, tonumber(remaining) or 0, reset or 0)
  end
end

-- RFC 9562 section 5.7: milliseconds, then random bits; within a millisecond a counter keeps them in order.
local last_ms, counter = 0, 0

function _M.generate_uuid_v7()
  local ms = math.floor(native.now() * 1000 + 0.5)
  if ms > last_ms then
    last_ms, counter = ms, 0
  else
    counter = counter + 1
    if counter > 0x3ffff then
      last_ms, counter = last_ms + 1, 0
    end
  end
  local r = { byte(native.random_bytes(7), 1, 7) }
  return format("%08x-%04x-%04x-%02x%02x-%02x%02x%02x%02x%02x%02x", math.floor(last_ms / 65536), last_ms % 65536,
    0x7000 + math.floor(counter / 64), 0x80 + counter % 64, unpack(r))
end

return _M
