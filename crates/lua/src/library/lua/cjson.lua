-- lua-cjson as OpenResty ships it. `cjson.safe` is the same file: it returns errors where `cjson` raises them.

local native, name = ...
local safe_by_default = name == "cjson.safe"

local next, type, error, pcall, rawget, rawlen, select = next, type, error, pcall, rawget, rawlen, select
local getmetatable, setmetatable, tostring = getmetatable, setmetatable, tostring
local floor, huge = math.floor, math.huge
local find, gsub, format, byte, rep = string.find, string.gsub, string.format, string.byte, string.rep
local new_buffer, json_decode = native.buffer.new, native.json_decode
local null, empty_array = native.null, native.empty_array

-- Shared by all instances, so that a table that one made is an array for the others.
local array_mt = native.array_mt or {}
local empty_array_mt = native.empty_array_mt or {}
native.array_mt, native.empty_array_mt = array_mt, empty_array_mt

local SPECIAL = '[%c"\\]'
local SPECIAL_AND_SLASH = '[%c"\\/]'
local ESCAPES = setmetatable({
  ['"'] = '\\"', ["\\"] = "\\\\", ["/"] = "\\/", ["\b"] = "\\b", ["\f"] = "\\f",
  ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t",
}, {
  __index = function(escapes, char)
    local escape = format("\\u%04x", byte(char))
    escapes[char] = escape
    return escape
  end,
})

local function fail(what, why)
  error("Cannot serialise " .. what .. ": " .. why, 0)
end

local function put_string(config, buf, text)
  if find(text, config.special) then
    text = gsub(text, config.special, ESCAPES)
  end
  buf:put('"', text, '"')
end

local function put_number(config, buf, number)
  if number ~= number or number == huge or number == -huge then
    if config.invalid_numbers == "null" then
      buf:put("null")
      return
    elseif not config.invalid_numbers then
      fail("number", "must not be NaN or Infinity")
    end
    buf:put(number ~= number and "NaN" or number == huge and "Infinity" or "-Infinity")
  elseif config.precision == 14 then
    buf:put(number)
  else
    buf:put(format(config.number_format, number))
  end
end

-- The length of `t` as an array, or nil if it isn't one.
local function array_length(config, t)
  local key = next(t)
  if type(key) == "string" then
    return nil
  end
  local max, count = 0, 0
  while key ~= nil do
    if type(key) ~= "number" or key < 1 or floor(key) ~= key then
      return nil
    end
    if key > max then
      max = key
    end
    count = count + 1
    key = next(t, key)
  end
  if config.sparse_ratio > 0 and max > count * config.sparse_ratio and max > config.sparse_safe then
    if not config.sparse_convert then
      fail("table", "excessively sparse array")
    end
    return nil
  end
  return max
end

local put

local function break_line(config, buf, depth)
  if config.indent then
    buf:put("\n", rep(config.indent, depth))
  end
end

local function put_array(config, buf, t, length, depth)
  buf:put("[")
  for i = 1, length do
    if i > 1 then
      buf:put(",")
    end
    break_line(config, buf, depth)
    put(config, buf, rawget(t, i), depth)
  end
  if length > 0 then
    break_line(config, buf, depth - 1)
  end
  buf:put("]")
end

local function put_object(config, buf, t, depth)
  buf:put("{")
  local comma = false
  for key, value in next, t do
    local kind = type(value)
    if not (config.skip_unsupported and (kind == "function" or kind == "thread" or kind == "userdata" and value ~= null
      and value ~= empty_array)) then
      if comma then
        buf:put(",")
      end
      comma = true
      break_line(config, buf, depth)
      if type(key) == "string" then
        put_string(config, buf, key)
      elseif type(key) == "number" then
        buf:put('"')
        put_number(config, buf, key)
        buf:put('"')
      else
        fail(type(key), "table key must be a number or string")
      end
      buf:put(config.indent and ": " or ":")
      put(config, buf, value, depth)
    end
  end
  if comma then
    break_line(config, buf, depth - 1)
  end
  buf:put("}")
end

local function put_table(config, buf, t, depth)
  depth = depth + 1
  if depth > config.encode_depth then
    error("Cannot serialise, excessive nesting (" .. depth .. ")", 0)
  end
  local metatable = getmetatable(t)
  if metatable == array_mt then
    return put_array(config, buf, t, rawlen(t), depth)
  end
  local length = array_length(config, t)
  if length and (length > 0 or config.empty_as_array or metatable == empty_array_mt) then
    return put_array(config, buf, t, length, depth)
  end
  put_object(config, buf, t, depth)
end

function put(config, buf, value, depth)
  local kind = type(value)
  if kind == "string" then
    put_string(config, buf, value)
  elseif kind == "number" then
    put_number(config, buf, value)
  elseif kind == "table" then
    put_table(config, buf, value, depth)
  elseif kind == "boolean" then
    buf:put(value and "true" or "false")
  elseif value == nil or value == null then
    buf:put("null")
  elseif value == empty_array then
    buf:put("[]")
  elseif config.skip_unsupported then
    buf:put("null")
  else
    fail(kind, "type not supported")
  end
end

local function new_config()
  return {
    special = SPECIAL_AND_SLASH, precision = 14, number_format = "%.14g", invalid_numbers = false,
    sparse_convert = false, sparse_ratio = 2, sparse_safe = 10, encode_depth = 1000,
    empty_as_array = false, skip_unsupported = false, keep_buffer = true,
    decode_depth = 1000, decode_array_mt = nil, lenient_numbers = true,
  }
end

local function check_integer(value, low, high, position, what)
  if type(value) ~= "number" or value < low or value > high or floor(value) ~= value then
    error("bad argument #" .. position .. " to '" .. what .. "' (expected integer between " .. low .. " and " .. high
      .. ")", 3)
  end
  return value
end

local function check_setting(value, what)
  if value == "on" or value == "off" then
    return value == "on"
  elseif type(value) ~= "boolean" then
    error("bad argument #1 to '" .. what .. "' (invalid option)", 3)
  end
  return value
end

-- A function that changes and returns one field of the configuration.
local function switch(config, field, what)
  return function(value)
    if value ~= nil then
      config[field] = check_setting(value, what)
    end
    return config[field]
  end
end

local function limit(config, field, what, high)
  return function(value)
    if value ~= nil then
      config[field] = check_integer(value, 1, high, 1, what)
    end
    return config[field]
  end
end

local function add_settings(cjson, config)
  cjson.encode_max_depth = limit(config, "encode_depth", "encode_max_depth", 2147483647)
  cjson.decode_max_depth = limit(config, "decode_depth", "decode_max_depth", 2147483647)
  cjson.encode_keep_buffer = switch(config, "keep_buffer", "encode_keep_buffer")
  cjson.decode_invalid_numbers = switch(config, "lenient_numbers", "decode_invalid_numbers")
  cjson.encode_skip_unsupported_value_types = switch(config, "skip_unsupported", "encode_skip_unsupported_value_types")
  function cjson.encode_number_precision(value)
    if value ~= nil then
      config.precision = check_integer(value, 1, 16, 1, "encode_number_precision")
      config.number_format = "%." .. value .. "g"
    end
    return config.precision
  end
  -- The text that a level of nesting is indented by; an empty one for a single line.
  function cjson.encode_indent(value)
    if value ~= nil then
      if type(value) ~= "string" then
        error("bad argument #1 to 'encode_indent' (string expected, got " .. type(value) .. ")", 2)
      end
      config.indent = value ~= "" and value or nil
    end
    return config.indent or ""
  end
  function cjson.encode_invalid_numbers(value)
    if value == "null" then
      config.invalid_numbers = value
    elseif value ~= nil then
      config.invalid_numbers = check_setting(value, "encode_invalid_numbers")
    end
    return config.invalid_numbers
  end
  function cjson.encode_sparse_array(convert, ratio, from)
    if convert ~= nil then
      config.sparse_convert = check_setting(convert, "encode_sparse_array")
    end
    if ratio ~= nil then
      config.sparse_ratio = check_integer(ratio, 0, 2147483647, 2, "encode_sparse_array")
    end
    if from ~= nil then
      config.sparse_safe = check_integer(from, 0, 2147483647, 3, "encode_sparse_array")
    end
    return config.sparse_convert, config.sparse_ratio, config.sparse_safe
  end
  function cjson.encode_empty_table_as_object(value)
    if value ~= nil then
      config.empty_as_array = not check_setting(value, "encode_empty_table_as_object")
    end
    return not config.empty_as_array
  end
  function cjson.encode_escape_forward_slash(value)
    if value ~= nil then
      config.special = check_setting(value, "encode_escape_forward_slash") and SPECIAL_AND_SLASH or SPECIAL
    end
    return config.special == SPECIAL_AND_SLASH
  end
  function cjson.decode_array_with_array_mt(value)
    if value ~= nil then
      config.decode_array_mt = check_setting(value, "decode_array_with_array_mt") and array_mt or nil
    end
    return config.decode_array_mt ~= nil
  end
end

local function new(safe)
  local config = new_config()

  local function encode(...)
    if select("#", ...) ~= 1 then
      error("bad argument #1 to 'encode' (expected 1 argument)", 0)
    end
    local buf = new_buffer()
    put(config, buf, (...), 0)
    return buf:tostring()
  end

  local function decode(...)
    local text = ...
    local kind = type(text)
    if select("#", ...) ~= 1 then
      error("bad argument #1 to 'decode' (expected 1 argument)", 0)
    elseif kind == "number" then
      text = tostring(text)
    elseif kind ~= "string" then
      error("bad argument #1 to 'decode' (string expected, got " .. kind .. ")", 0)
    end
    local value, message = json_decode(text, config.decode_depth, config.decode_array_mt, config.lenient_numbers)
    if message then
      error(message, 0)
    end
    return value
  end

  local cjson = {
    _NAME = "cjson", _VERSION = "2.1.0.14", null = null, empty_array = empty_array,
    array_mt = array_mt, empty_array_mt = empty_array_mt, encode = encode, decode = decode, new = function()
      return new(safe)
    end,
  }
  if safe then
    function cjson.encode(...)
      local ok, text = pcall(encode, ...)
      if not ok then
        return nil, text
      end
      return text
    end
    function cjson.decode(...)
      local text = ...
      if type(text) == "string" and select("#", ...) == 1 then
        local value, message = json_decode(text, config.decode_depth, config.decode_array_mt, config.lenient_numbers)
        if message then
          return nil, message
        end
        return value
      end
      local ok, value = pcall(decode, ...)
      if not ok then
        return nil, value
      end
      return value
    end
  end
  add_settings(cjson, config)
  return cjson
end

return new(safe_by_default)
