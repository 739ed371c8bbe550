-- resty.string.

local native = ...
local to_hex = native.to_hex

return {
  _VERSION = "0.16",
  to_hex = function(text)
    return to_hex(text)
  end,
  atoi = function(text)
    -- As in C: white space, a sign, and digits up to what isn't one.
    return tonumber(string.match(text, "^%s*([+-]?%d+)")) or 0
  end,
}
