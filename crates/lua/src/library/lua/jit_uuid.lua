-- resty.jit-uuid.

local native = ...
local byte, format, type = string.byte, string.format, type
local find, gsub, char = string.find, string.gsub, string.char

local _M = { _VERSION = "0.0.7" }
local HEX = "[%da-fA-F]"
local PATTERN = "^" .. HEX:rep(8) .. "%-" .. HEX:rep(4) .. "%-" .. HEX:rep(4) .. "%-" .. HEX:rep(4) .. "%-"
  .. HEX:rep(12) .. "$"

-- The system's generator needs no seed.
function _M.seed(seed)
  return seed or 0
end

function _M.is_valid(text)
  return type(text) == "string" and find(text, PATTERN) ~= nil
end

local function written(bytes, version)
  local b = { byte(bytes, 1, 16) }
  b[7] = b[7] % 16 + version * 16
  b[9] = b[9] % 64 + 128
  return format("%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", unpack(b))
end

function _M.generate_v4()
  return written(native.random_bytes(16), 4)
end

local function named(hash, version)
  return function(namespace)
    if not _M.is_valid(namespace) then
      return nil, "namespace must be a valid UUID"
    end
    local prefix = gsub(gsub(namespace, "%-", ""), "%x%x", function(digits)
      return char(tonumber(digits, 16))
    end)
    return function(name)
      if type(name) ~= "string" then
        return nil, "name must be a string"
      end
      return written(native.hash(hash, prefix .. name), version)
    end
  end
end

_M.factory_v3 = named("md5", 3)
_M.factory_v5 = named("sha1", 5)

function _M.generate_v3(namespace, name)
  local generate, err = _M.factory_v3(namespace)
  if not generate then
    return nil, err
  end
  return generate(name)
end

function _M.generate_v5(namespace, name)
  local generate, err = _M.factory_v5(namespace)
  if not generate then
    return nil, err
  end
  return generate(name)
end

return setmetatable(_M, { __call = _M.generate_v4 })
