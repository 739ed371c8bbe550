-- apisix.core.string.

local type, error, byte, find, sub = type, error, string.byte, string.find, string.sub
local decode_args, encode_args = ngx.decode_args, ngx.encode_args

local _M = setmetatable({ version = 0.1 }, { __index = string })

-- The needle is no pattern.
function _M.find(haystack, needle, from)
  return find(haystack, needle, from or 1, true)
end

local function check(text, what, part)
  if type(text) ~= "string" or type(part) ~= "string" then
    error("unexpected type: s:" .. type(text) .. ", " .. what .. ":" .. type(part), 3)
  end
end

function _M.has_prefix(text, prefix)
  check(text, "prefix", prefix)
  return sub(text, 1, #prefix) == prefix
end

function _M.has_suffix(text, suffix)
  check(text, "suffix", suffix)
  return #text >= #suffix and sub(text, #text - #suffix + 1) == suffix
end

-- The last position of a character at or before `from`.
function _M.rfind_char(text, char, from)
  local wanted = byte(char)
  for i = from or #text, 1, -1 do
    if byte(text, i) == wanted then
      return i
    end
  end
  return nil
end

-- A script of Redis without the white space at the beginning of lines and after commas.
function _M.compress_script(script)
  script = ngx.re.gsub(script, [[^\s+]], "", "mjo")
  script = ngx.re.gsub(script, [[,\s+]], ",", "mjo")
  return script
end

-- All of the arguments, however many.
function _M.decode_args(text)
  return decode_args(text, 0)
end

function _M.encode_args(arguments)
  return encode_args(arguments)
end

return _M
