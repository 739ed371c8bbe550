-- resty.md5, resty.sha1, resty.sha224, resty.sha256, resty.sha384 and resty.sha512.

local native, name = ...
local algorithm = name:match("^resty%.(.+)$")

return {
  _VERSION = "0.16",
  new = function()
    return native.hasher(algorithm)
  end,
}
