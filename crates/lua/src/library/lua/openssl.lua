-- resty.openssl.digest, resty.openssl.hmac, resty.openssl.mac, resty.openssl.rand and resty.openssl.pkey: what needs no certificates and no
-- objects of OpenSSL.

local native, name = ...
local type, setmetatable = type, setmetatable

-- A digest or HMAC in progress, under the names that lua-resty-openssl has for its methods.
local Running = {}
Running.__index = Running

function Running:update(...)
  for i = 1, select("#", ...) do
    self.state:update((select(i, ...)))
  end
  return true
end

function Running:final(text)
  return self.state:final(text)
end

function Running:reset()
  return self.state:reset()
end

local function running(state, algorithm)
  if not state then
    return nil, "invalid digest type \"" .. tostring(algorithm) .. "\""
  end
  return setmetatable({ state = state }, Running)
end

if name == "resty.openssl.digest" then
  return {
    new = function(algorithm)
      return running(native.hasher(algorithm or "sha1"), algorithm)
    end,
  }
elseif name == "resty.openssl.hmac" then
  return {
    new = function(key, algorithm)
      return running(native.hmac_hasher(algorithm or "sha1", key), algorithm)
    end,
  }
elseif name == "resty.openssl.mac" then
  return {
    new = function(key, mac, _, digest)
      if mac ~= "HMAC" then
        return nil, "mac.new: invalid mac type \"" .. tostring(mac) .. "\""
      end
      return running(native.hmac_hasher(digest or "sha1", key), digest)
    end,
  }
elseif name == "resty.openssl.rand" then
  return {
    bytes = function(count)
      local bytes = require("resty.random").bytes(count)
      if not bytes then
        return nil, "can't make " .. tostring(count) .. " random bytes"
      end
      return bytes
    end,
  }
end

local RSA = { sha256 = "RS256", sha384 = "RS384", sha512 = "RS512" }
local PSS = { sha256 = "PS256", sha384 = "PS384", sha512 = "PS512" }
local KEYS = { ec256 = { sha256 = "ES256" }, ec384 = { sha384 = "ES384" } }

local Key = { PADDINGS = { RSA_PKCS1_PADDING = 1, RSA_PKCS1_PSS_PADDING = 6 } }
Key.__index = Key

-- A key in PEM; making keys, and JWK, aren't there.
function Key.new(pem)
  if type(pem) ~= "string" then
    return nil, "pkey.new: only keys in PEM are supported"
  end
  local kind = native.key_kind(pem)
  if not kind then
    return nil, "pkey.new: failed to load the key"
  end
  return setmetatable({ pem = pem, kind = kind }, Key)
end

local function algorithm_of(self, digest, padding)
  if self.kind == "ed25519" then
    return "EdDSA"
  end
  digest = type(digest) == "string" and digest:lower():gsub("%-", "") or "sha256"
  if self.kind == "rsa" then
    return (padding == Key.PADDINGS.RSA_PKCS1_PSS_PADDING and PSS or RSA)[digest]
  end
  return KEYS[self.kind][digest]
end

function Key:sign(text, digest, padding, options)
  local algorithm = algorithm_of(self, digest, padding)
  if not algorithm then
    return nil, "pkey:sign: the digest is not supported with this key"
  end
  return native.signature_make(algorithm, self.pem, text, not (options and options.ecdsa_use_raw))
end

function Key:verify(signature, text, digest, padding, options)
  local algorithm = algorithm_of(self, digest, padding)
  if not algorithm then
    return nil, "pkey:verify: the digest is not supported with this key"
  end
  return native.signature_check(algorithm, self.pem, text, signature, not (options and options.ecdsa_use_raw))
end

return Key
