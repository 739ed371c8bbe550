-- apisix.core.json.

local cjson = require("cjson.safe")
local null, array_mt = cjson.null, cjson.array_mt
local type, next, pairs, tostring, getmetatable, setmetatable = type, next, pairs, tostring, getmetatable, setmetatable
local encode_json, decode_json = cjson.encode, cjson.decode

-- Everyone's `cjson.safe` then decodes arrays with the metatable, as in APISIX.
cjson.decode_array_with_array_mt(true)

local _M = { version = 0.1, array_mt = array_mt, null = null }

-- Removes null members, at every depth.
local function strip_nulls(value)
  for key, inner in pairs(value) do
    if inner == null then
      value[key] = nil
    elseif type(inner) == "table" then
      strip_nulls(inner)
    end
  end
  return value
end
_M.strip_nulls = strip_nulls

function _M.decode(text, options)
  local value, err = decode_json(text)
  if not (options and options.null_as_nil) then
    return value, err
  elseif value == null then
    return nil, err
  elseif type(value) == "table" then
    strip_nulls(value)
  end
  return value, err
end

local UNSUPPORTED = { ["function"] = true, userdata = true, thread = true, table = true }

local function plain(value)
  return UNSUPPORTED[type(value)] and tostring(value) or value
end

-- A copy that can be encoded: what has no JSON, and a table that was met before, is its address.
local function forced(value, seen)
  local copy = {}
  for key, inner in pairs(value) do
    if type(inner) == "table" and not seen[inner] then
      seen[inner] = true
      copy[plain(key)] = forced(inner, seen)
    else
      copy[plain(key)] = plain(inner)
    end
  end
  return copy
end

local function encode(value, force)
  if force then
    value = type(value) == "table" and forced(value, {}) or plain(value)
  end
  return encode_json(value)
end
_M.encode = encode

-- Encoded only if the log level asks for the text.
local delayed_mt = {
  __tostring = function(self)
    local text, err = encode(self.data, self.force)
    if not text and ngx.log then
      ngx.log(ngx.WARN, "failed to encode: ", err, " force: ", self.force)
    end
    return text or ""
  end,
}

function _M.delay_encode(data, force)
  return setmetatable({ data = data, force = force }, delayed_mt)
end

local function before(a, b)
  return tostring(a) < tostring(b)
end

-- With the members in the order of their names, so that equal values give equal texts.
local function put_stably(parts, value, depth)
  if depth > 1000 then
    error("excessive depth", 0)
  elseif type(value) ~= "table" or next(value) == nil then
    local text, err = encode_json(value)
    if not text then
      error(err, 0)
    end
    parts[#parts + 1] = text
    return
  end
  if getmetatable(value) == array_mt or table.isarray(value) then
    for i = 1, #value do
      parts[#parts + 1] = i == 1 and "[" or ","
      put_stably(parts, value[i], depth + 1)
    end
    parts[#parts + 1] = #value == 0 and "[]" or "]"
    return
  end
  local keys = {}
  for key in next, value do
    keys[#keys + 1] = key
  end
  table.sort(keys, before)
  for i, key in ipairs(keys) do
    parts[#parts + 1] = i == 1 and "{" or ","
    parts[#parts + 1] = encode_json(tostring(key))
    parts[#parts + 1] = ":"
    put_stably(parts, value[key], depth + 1)
  end
  parts[#parts + 1] = "}"
end

local function stably_encode(value)
  local parts = {}
  local ok, err = pcall(put_stably, parts, value, 1)
  if not ok then
    return nil, err
  end
  return table.concat(parts)
end
_M.stably_encode = stably_encode
_M.canonical_encode = stably_encode

return _M
