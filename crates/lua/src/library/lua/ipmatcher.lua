-- resty.ipmatcher: networks by the length of their prefix, and by their address as bytes.

local native = ...
local type, tonumber, setmetatable, byte = type, tonumber, setmetatable, string.byte
local bytes_of, masked = native.address_bytes, native.address_masked

local _M = { _VERSION = "0.6.1" }
local mt = { __index = _M }

local function number(bytes, from)
  local a, b, c, d = byte(bytes, from, from + 3)
  return ((a * 256 + b) * 256 + c) * 256 + d
end

-- The address as a number in the host's order, or false.
function _M.parse_ipv4(text)
  local bytes = type(text) == "string" and bytes_of(text)
  return bytes and #bytes == 4 and number(bytes, 1) or false
end

-- The address as four numbers, or false.
function _M.parse_ipv6(text)
  local bytes = type(text) == "string" and bytes_of(text)
  if not bytes or #bytes ~= 16 then
    return false
  end
  return { number(bytes, 1), number(bytes, 5), number(bytes, 9), number(bytes, 13) }
end

-- The networks of one family: tables by prefix, and the prefixes, longest first.
local function insert(networks, bytes, prefix, value)
  local by_address = networks[prefix]
  if not by_address then
    by_address = {}
    networks[prefix] = by_address
    networks.prefixes[#networks.prefixes + 1] = prefix
  end
  by_address[masked(bytes, prefix)] = value
end

local function add(self, text, value)
  if type(text) ~= "string" then
    return nil, "invalid ip address: " .. tostring(text)
  end
  local address, prefix = text:match("^(.-)/(.*)$")
  local bytes = bytes_of(address or text)
  if not bytes then
    return nil, "invalid ip address: " .. text
  end
  local bits = #bytes * 8
  prefix = prefix == nil and bits or prefix:find("^%d+$") and tonumber(prefix)
  if not prefix or prefix > bits then
    return nil, "invalid ip address: " .. text
  end
  insert(self[#bytes], bytes, prefix, value)
  return true
end

local function descending(a, b)
  return a > b
end

local function finish(self)
  table.sort(self[4].prefixes, descending)
  table.sort(self[16].prefixes, descending)
  return setmetatable(self, mt)
end

local function empty()
  return { [4] = { prefixes = {} }, [16] = { prefixes = {} } }
end

function _M.new(list)
  if type(list) ~= "table" then
    error("missing valid ip argument", 2)
  end
  local self = empty()
  for i = 1, #list do
    local ok, err = add(self, list[i], true)
    if not ok then
      return nil, err
    end
  end
  return finish(self)
end

-- From networks to values: `match` returns the value of the longest prefix.
function _M.new_with_value(values)
  if type(values) ~= "table" then
    error("missing valid ip argument", 2)
  end
  local self = empty()
  for text, value in next, values do
    local ok, err = add(self, text, value)
    if not ok then
      return nil, err
    end
  end
  return finish(self)
end

local function look_up(networks, bytes)
  for i = 1, #networks.prefixes do
    local prefix = networks.prefixes[i]
    local value = networks[prefix][masked(bytes, prefix)]
    if value ~= nil then
      return value
    end
  end
  return false
end

function _M:match(text)
  local bytes = type(text) == "string" and bytes_of(text)
  if not bytes then
    return false, "invalid ip address, not ipv4 and ipv6"
  end
  return look_up(self[#bytes], bytes)
end

function _M:match_bin(bytes)
  if type(bytes) ~= "string" or #bytes ~= 4 and #bytes ~= 16 then
    return false, "invalid ip address, not ipv4 and ipv6"
  end
  return look_up(self[#bytes], bytes)
end

return _M
