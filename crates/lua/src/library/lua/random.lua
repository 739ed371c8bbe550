-- resty.random.

local native = ...

local _M = { _VERSION = "0.16" }

function _M.bytes(count)
  if type(count) ~= "number" or not (count >= 0 and count <= 2 ^ 20) then
    return nil
  end
  return native.random_bytes(math.floor(count))
end

-- Of the other library of this name.
function _M.token(count, characters)
  characters = characters or "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
  local out = {}
  for i = 1, count do
    local at = _M.number(1, #characters)
    out[i] = characters:sub(at, at)
  end
  return table.concat(out)
end

-- An integer from `low` to `high`.
function _M.number(low, high)
  low, high = low or 0, high or 2 ^ 31 - 1
  local value = 0
  for _ = 1, 6 do
    value = value * 256 + native.random_bytes(1):byte()
  end
  return low + value % (high - low + 1)
end

return _M
