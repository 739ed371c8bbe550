-- resty.jwt: HS256, HS384, HS512, and with keys in PEM RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA.
-- `none` is refused; encrypted tokens aren't there.

local native = ...
local type, error, pcall, tostring, next, select = type, error, pcall, tostring, next, select
local find, match = string.find, string.match
local cjson = require("cjson.safe").new()
cjson.decode_array_with_array_mt(true)
local encode_url, decode_url = native.base64url_encode, native.base64url_decode
local validators

local HMAC = { HS256 = "sha256", HS384 = "sha384", HS512 = "sha512" }
local PUBLIC = {
  RS256 = true, RS384 = true, RS512 = true, PS256 = true, PS384 = true, PS512 = true,
  ES256 = true, ES384 = true, EdDSA = true,
}
local LEGACY = { lifetime_grace_period = true, require_nbf_claim = true, require_exp_claim = true, valid_issuers = true }
local AWESOME = "everything is awesome~ :p"

local _M = { _VERSION = "0.2.3" }
local algorithms
local payload_encoder, payload_decoder = cjson.encode, cjson.decode

-- Raised by `sign`; `verify` puts the reason into the token's object.
local function raise(reason)
  error({ reason = reason }, 0)
end

function _M.set_payload_encoder(_, encoder)
  if type(encoder) ~= "function" then
    error({ reason = "payload encoder must be function" })
  end
  payload_encoder = encoder
end

function _M.set_payload_decoder(_, decoder)
  if type(decoder) ~= "function" then
    error({ reason = "payload decoder must be function" })
  end
  payload_decoder = decoder
end

-- Only these algorithms are accepted: a table with their names as keys; nil for all.
function _M.set_alg_whitelist(_, names)
  algorithms = names
end

function _M.jwt_encode(_, value, is_payload)
  if type(value) == "table" then
    value = (is_payload and payload_encoder or cjson.encode)(value)
  end
  return encode_url(value)
end

function _M.jwt_decode(_, text, as_table, is_payload)
  local decoded = decode_url(text)
  if decoded and as_table then
    return (is_payload and payload_decoder or cjson.decode)(decoded)
  end
  return decoded
end

local function signature_of(algorithm, key, text)
  local hash = HMAC[algorithm]
  if hash then
    return native.hmac(hash, key, text)
  end
  local signature, err = native.signature_make(algorithm, key, text, false)
  if not signature then
    raise(err)
  end
  return signature
end

function _M:sign(key, token)
  local header, payload = token.header, token.payload
  if type(header) ~= "table" then
    raise("invalid header: " .. type(header))
  end
  local typ, algorithm = header.typ, header.alg
  if typ ~= nil and typ ~= "JWT" then
    raise("invalid typ: " .. tostring(typ))
  elseif not HMAC[algorithm] and not PUBLIC[algorithm] then
    raise("unsupported alg: " .. tostring(algorithm))
  end
  if type(key) == "function" then
    key = key(header.kid)
  end
  if type(key) ~= "string" then
    raise("secret is not a string")
  end
  local text = encode_url(cjson.encode(header)) .. "." .. _M:jwt_encode(payload, true)
  return text .. "." .. encode_url(signature_of(algorithm, key, text))
end

function _M.load_jwt(_, text)
  local token = { valid = false, verified = false }
  if type(text) ~= "string" then
    token.reason = "invalid jwt string"
    return token
  end
  local header, payload, signature = match(text, "^([^.]*)%.([^.]*)%.([^.]*)$")
  if not header then
    token.reason = "invalid jwt string"
    return token
  end
  token.raw_header, token.raw_payload, token.signature = header, payload, signature
  token.header = _M:jwt_decode(header, true)
  if type(token.header) ~= "table" then
    token.header = nil
    token.reason = "invalid header: " .. header
    return token
  end
  token.payload = _M:jwt_decode(payload, true, true)
  if type(token.payload) ~= "table" then
    token.payload = nil
    token.reason = "invalid payload: " .. payload
    return token
  end
  token.valid = true
  return token
end

local function check_signature(key, token)
  local header = token.header
  local algorithm = header.alg
  if algorithms and not algorithms[algorithm] then
    raise("whitelist unsupported alg: " .. tostring(algorithm))
  elseif not HMAC[algorithm] and not PUBLIC[algorithm] then
    raise("unsupported alg: " .. tostring(algorithm))
  end
  if type(key) == "function" then
    if not header.kid then
      raise("secret function specified without kid in header")
    end
    key = key(header.kid)
    if not key then
      raise("function returned nil for kid: " .. tostring(header.kid))
    end
  end
  if type(key) ~= "string" then
    raise("secret is not a string")
  end
  local signature = decode_url(token.signature)
  if not signature then
    raise("Wrongly encoded signature")
  end
  local text = token.raw_header .. "." .. token.raw_payload
  if HMAC[algorithm] then
    -- A public key is no secret: a token signed with it as one would be anybody's.
    if find(key, "-----BEGIN ", 1, true) then
      raise("a key in PEM is not a shared secret")
    end
    -- Digests of both are compared, so the time taken says nothing about the signature.
    local made = native.hmac(HMAC[algorithm], key, text)
    if native.hmac("sha256", made, made) ~= native.hmac("sha256", made, signature) then
      raise("signature mismatch: " .. token.signature)
    end
    return
  end
  local valid, err = native.signature_check(algorithm, key, text, signature, false)
  if err then
    raise("Decode secret is not a valid cert/public key: " .. err)
  elseif not valid then
    raise("signature mismatch: " .. token.signature)
  end
end

local function is_legacy(spec)
  local legacy, claims = false, false
  for name in next, spec do
    if LEGACY[name] then
      legacy = true
    else
      claims = true
    end
  end
  if legacy and claims then
    error("Legacy options and claim specs can't be mixed", 0)
  end
  return legacy
end

-- The claims' checks that the options of older versions stand for.
local function from_legacy(options)
  local spec = {}
  local grace = options.lifetime_grace_period
  if grace ~= nil then
    if type(grace) ~= "number" or grace < 0 then
      error("lifetime_grace_period must be a number >= 0", 0)
    end
    spec.__jwt = validators.require_one_of({ "nbf", "exp" })
    spec.nbf, spec.exp = validators.opt_is_not_before(grace), validators.opt_is_not_expired(grace)
  end
  if options.require_nbf_claim then
    spec.nbf = validators.is_not_before(grace)
  end
  if options.require_exp_claim then
    spec.exp = validators.is_not_expired(grace)
  end
  if options.valid_issuers then
    spec.iss = validators.equals_any_of(options.valid_issuers)
  end
  return spec
end

local function check_claims(token, spec)
  local json
  for claim, validator in next, spec do
    if type(validator) ~= "function" then
      error("Claim spec value must be a function - see jwt-validators.lua for helper functions", 0)
    end
    local value = token.payload[claim]
    if claim == "__jwt" then
      value = require("apisix.core.table").deepcopy(token)
    end
    json = json or cjson.encode(token)
    local ok, result = pcall(validator, value, claim, json)
    if not ok then
      if type(result) == "table" and result.reason then
        raise(result.reason)
      end
      raise((string.gsub(tostring(result), "^[^%s]-:%d+: ", "")))
    elseif result == false then
      raise("Claim '" .. claim .. "' ('" .. tostring(value) .. "') returned failure")
    end
  end
end

local function specs_of(...)
  validators = validators or require("resty.jwt-validators")
  local count = select("#", ...)
  if count == 0 then
    return { { nbf = validators.opt_is_not_before(), exp = validators.opt_is_not_expired() } }
  end
  local specs = {}
  for i = 1, count do
    local spec = select(i, ...)
    if type(spec) == "table" then
      if is_legacy(spec) then
        spec = from_legacy(spec)
      end
      for _, validator in next, spec do
        if type(validator) ~= "function" then
          error("Claim spec value must be a function - see jwt-validators.lua for helper functions", 0)
        end
      end
      specs[#specs + 1] = spec
    end
  end
  return specs
end

function _M:verify_jwt_obj(key, token, ...)
  local specs = specs_of(...)
  if not token.valid then
    token.verified = false
    return token
  end
  local ok, err = pcall(function()
    check_signature(key, token)
    for i = 1, #specs do
      check_claims(token, specs[i])
    end
  end)
  token.verified = ok
  token.reason = ok and AWESOME or type(err) == "table" and err.reason or tostring(err)
  return token
end

function _M:verify(key, text, ...)
  return _M:verify_jwt_obj(key, _M:load_jwt(text), ...)
end

return _M
