-- The module `ngx.base64`.

local native = ...

return {
  version = "0.1.28",
  encode_base64url = function(text)
    if type(text) ~= "string" then
      return nil, "must provide a string"
    end
    return native.base64url_encode(text)
  end,
  decode_base64url = function(text)
    if type(text) ~= "string" then
      return nil, "must provide a string"
    end
    local decoded = native.base64url_decode(text)
    if not decoded then
      return nil, "invalid input"
    end
    return decoded
  end,
  decode_base64mime = function(text)
    if type(text) ~= "string" then
      return nil, "must provide a string"
    end
    local decoded = native.base64_decode((text:gsub("[^%w+/]", "")))
    if not decoded then
      return nil, "invalid input"
    end
    return decoded
  end,
}
