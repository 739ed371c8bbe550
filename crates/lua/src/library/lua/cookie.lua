-- resty.cookie: the request's cookies, and the response's Set-Cookie headers.

local native = ...
local type, setmetatable, next = type, setmetatable, next
local gmatch, match = string.gmatch, string.match

local _M = { _VERSION = "0.1.0" }
local mt = { __index = _M }

local function parse(text)
  local cookies = {}
  for part in gmatch(text, "[^;]+") do
    local name, value = match(part, "^%s*([^=%s]+)%s*=%s*(.-)%s*$")
    if name then
      cookies[name] = match(value, '^"(.*)"$') or value
    end
  end
  return cookies
end

function _M:new()
  return setmetatable({ _cookie = ngx.var.http_cookie, cookie_table = nil }, mt)
end

function _M:get_all()
  if not self._cookie then
    return nil, "no cookie found in the current request"
  end
  self.cookie_table = self.cookie_table or parse(self._cookie)
  return self.cookie_table
end

function _M:get(key)
  local cookies, err = self:get_all()
  if not cookies then
    return nil, err
  end
  return cookies[key]
end

function _M:get_cookie_size()
  return self._cookie and #self._cookie or 0
end

local ATTRIBUTES = {
  { "expires", "Expires" }, { "max_age", "Max-Age" }, { "domain", "Domain" }, { "path", "Path" },
  { "secure", "Secure" }, { "httponly", "HttpOnly" }, { "samesite", "SameSite" }, { "extension" },
}

local function written(cookie)
  if not cookie.key or not cookie.value then
    return nil, "missing cookie field \"key\" or \"value\""
  end
  local samesite = cookie.samesite
  if samesite and samesite ~= "Strict" and samesite ~= "Lax" and samesite ~= "None" then
    return nil, "SameSite is not Strict, Lax or None"
  end
  local text = cookie.key .. "=" .. cookie.value
  for _, attribute in ipairs(ATTRIBUTES) do
    local value, name = cookie[attribute[1]], attribute[2]
    if value == true then
      text = text .. "; " .. name
    elseif value then
      text = text .. "; " .. (name and name .. "=" or "") .. value
    end
  end
  -- A control character would begin another header.
  if text:find("%c") then
    return nil, "a cookie can't have control characters"
  end
  return text
end

function _M:set(cookie)
  if type(cookie) ~= "table" then
    return nil, "expected a table of cookie fields"
  elseif cookie.max_age and not cookie.expires then
    cookie.expires = native.cookie_time(native.now() + cookie.max_age)
  end
  local text, err = written(cookie)
  if not text then
    return nil, err
  end
  local headers = ngx.header["Set-Cookie"]
  local all = {}
  if type(headers) == "string" then
    all[1] = headers
  elseif type(headers) == "table" then
    for i, header in next, headers do
      all[i] = header
    end
  end
  for _, header in ipairs(all) do
    if header == text then
      return true
    end
  end
  all[#all + 1] = text
  ngx.header["Set-Cookie"] = all
  return true
end

return _M
