-- apisix.core.id, apisix.core.version, apisix.core.math and apisix.constants.

local native, name = ...

if name == "apisix.core.id" then
  return {
    version = 0.1,
    get = function()
      return native.instance_id
    end,
    gen_uuid_v4 = function()
      return require("resty.jit-uuid").generate_v4()
    end,
  }
elseif name == "apisix.core.version" then
  return { VERSION = native.apisix_version }
elseif name == "apisix.core.math" then
  local function gcd(a, b)
    while b ~= 0 do
      a, b = b, a % b
    end
    return a
  end
  return { gcd = gcd }
end

local function set(...)
  local names = {}
  for _, key in ipairs({ ... }) do
    names["/" .. key] = true
  end
  return names
end

return {
  RPC_ERROR = 0, RPC_PREPARE_CONF = 1, RPC_HTTP_REQ_CALL = 2, RPC_EXTRA_INFO = 3, RPC_HTTP_RESP_CALL = 4,
  HTTP_ETCD_DIRECTORY = set("upstreams", "plugins", "ssls", "stream_routes", "plugin_metadata", "routes", "services",
    "consumers", "global_rules", "protos", "plugin_configs", "consumer_groups", "secrets"),
  STREAM_ETCD_DIRECTORY = set("upstreams", "services", "plugins", "ssls", "stream_routes", "plugin_metadata", "secrets"),
}
