-- apisix.core.schema, and the definitions of apisix.schema_def that plugins build their schemas from.

local native, name = ...

local OCTET = "([0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])"
local IPV4 = OCTET .. ("\\." .. OCTET):rep(3)
local IPV6 = "([a-fA-F0-9]{0,4}:){1,8}(:[a-fA-F0-9]{0,4}){0,8}([a-fA-F0-9]{0,4})?"

local label_value = {
  description = "value of label", type = "string", pattern = [[^\S+$]], minLength = 1, maxLength = 256,
}

local definitions = {
  version = 0.5,
  id_schema = {
    anyOf = {
      { type = "string", minLength = 1, maxLength = 64, pattern = "^[a-zA-Z0-9-_.]+$" },
      { type = "integer", minimum = 1 },
    },
  },
  host_def = { type = "string", pattern = [[^\*$|^\*?[0-9a-zA-Z-._\[\]:]+$]] },
  ip_def = {
    { title = "IPv4", type = "string", format = "ipv4" },
    { title = "IPv4/CIDR", type = "string", pattern = "^" .. IPV4 .. "/([12]?[0-9]|3[0-2])$" },
    { title = "IPv6", type = "string", format = "ipv6" },
    { title = "IPv6/CIDR", type = "string", pattern = "^" .. IPV6 .. "/[0-9]{1,3}$" },
  },
  uri_def = { type = "string", pattern = [=[^[^\/]+:\/\/([\da-zA-Z.-]+|\[[\da-fA-F:]+\])(:\d+)?]=] },
  label_value_def = label_value,
  labels_def = {
    description = "key/value pairs to specify attributes", type = "object", patternProperties = { [".*"] = label_value },
  },
  method_schema = {
    description = "HTTP method", type = "string",
    enum = { "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PURGE" },
  },
  anonymous_consumer_schema = { type = "string", minLength = 1 },
  plugins_schema = { type = "object" },
  plugin_injected_schema = {
    _meta = {
      type = "object",
      properties = {
        disable = { type = "boolean" },
        error_response = { oneOf = { { type = "string" }, { type = "object" } } },
        priority = { type = "integer" },
        filter = { type = "array" },
        pre_function = { type = "string" },
      },
    },
  },
}

-- The realm of an authentication scheme: printable ASCII but " and \.
function definitions.get_realm_schema(default)
  return {
    type = "string", pattern = [[^[\x20-\x21\x23-\x5B\x5D-\x7E]+$]], default = default, minLength = 1, maxLength = 128,
  }
end

if name == "apisix.schema_def" then
  return definitions
end

local function check(schema, value)
  local validate = native.schema_check
  if not validate then
    return false, "this VM checks no schemas"
  end
  return validate(schema, value)
end

-- Definitions are looked up behind a table that can't be changed.
return setmetatable({
  version = 0.3, TYPE_CONSUMER = 1, TYPE_METADATA = 2, check = check,
  -- A function that checks values by `schema`.
  valid = function(schema)
    return function(value)
      return check(schema, value)
    end
  end,
}, {
  __index = require("apisix.schema_def"),
  __newindex = function()
    error("no modification allowed", 2)
  end,
})
