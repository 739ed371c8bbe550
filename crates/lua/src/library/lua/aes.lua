-- resty.aes.

local native = ...
local type, setmetatable = type, setmetatable

local MODES = { ecb = true, cbc = true, ctr = true, gcm = true }
local IV_BYTES = { ecb = 0, cbc = 16, ctr = 16, gcm = 12 }

local _M = {
  _VERSION = "0.16",
  hash = { md5 = "md5", sha1 = "sha1", sha224 = "sha224", sha256 = "sha256", sha384 = "sha384", sha512 = "sha512" },
}
local mt = { __index = _M }

-- nil for a cipher that isn't there, as with an OpenSSL that lacks it.
function _M.cipher(size, mode)
  size, mode = size or 128, mode or "cbc"
  if not MODES[mode] or size ~= 128 and size ~= 192 and size ~= 256 then
    return nil
  end
  return { size = size, cipher = mode, method = mode }
end

function _M:new(key, salt, cipher, hash, rounds, iv_bytes, padded)
  if type(key) ~= "string" then
    return nil, "key must be a string"
  elseif salt and #salt ~= 8 then
    return nil, "salt must be 8 characters or nil"
  end
  cipher = cipher or _M.cipher()
  hash = hash or _M.hash.md5
  local mode, key_bytes = cipher.method, cipher.size / 8
  local self = setmetatable({ mode = mode, padded = padded ~= false }, mt)
  if type(hash) ~= "table" then
    self.key, self.iv = native.key_from_password(hash, salt, key, rounds or 1, key_bytes, IV_BYTES[mode])
    if not self.key then
      return nil, "invalid hash"
    end
    return self
  end
  if not hash.iv then
    return nil, "iv is needed"
  elseif hash.method and type(hash.method) ~= "function" then
    return nil, "hash.method must be function"
  end
  self.iv = hash.iv
  if hash.method then
    key = hash.method(key)
  elseif #key > key_bytes then
    return nil, "bad key length"
  end
  if #key ~= key_bytes then
    return nil, "bad key length"
  elseif #self.iv > 16 or mode ~= "ecb" and #self.iv ~= (iv_bytes or IV_BYTES[mode]) then
    return nil, "bad iv length"
  end
  self.key = key
  return self
end

-- With GCM: a table of the text and its tag.
function _M:encrypt(text, additional)
  local encrypted, tag = native.aes_encrypt(self.mode, self.key, self.iv, text, self.padded, additional)
  if not encrypted then
    return nil, tag
  elseif tag then
    return { encrypted, tag }
  end
  return encrypted
end

function _M:decrypt(text, tag, additional)
  return native.aes_decrypt(self.mode, self.key, self.iv, text, self.padded, additional, tag)
end

return _M
