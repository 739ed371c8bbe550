-- resty.hmac.

local native = ...

local _M = {
  _VERSION = "0.06",
  ALGOS = { MD5 = "md5", SHA1 = "sha1", SHA224 = "sha224", SHA256 = "sha256", SHA384 = "sha384", SHA512 = "sha512" },
}

function _M:new(key, algorithm)
  return native.hmac_hasher(algorithm or "md5", key)
end

return _M
