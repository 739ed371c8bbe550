-- dkjson, over cjson: `encode` sorts members by name.

local cjson = require("cjson.safe").new()
local json = require("apisix.core.json")
local null = cjson.null

cjson.decode_array_with_array_mt(true)

local function replace_nulls(value, by)
  for key, inner in next, value do
    if inner == null then
      value[key] = by
    elseif type(inner) == "table" then
      replace_nulls(inner, by)
    end
  end
end

return {
  version = "dkjson 2.5",
  null = null,
  encode = function(value)
    return json.stably_encode(value)
  end,
  -- The value, and the position after it; or nil, a position and a message. Nulls become `null_value`.
  decode = function(text, pos, null_value)
    local value, err = cjson.decode(text:sub(pos or 1))
    if err then
      return nil, pos or 1, err
    elseif value == null then
      return null_value, #text + 1
    elseif type(value) == "table" then
      replace_nulls(value, null_value)
    end
    return value, #text + 1
  end,
}
