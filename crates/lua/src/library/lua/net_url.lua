-- net.url: URLs as objects whose query is a table.

local match, gsub, find, format, byte = string.match, string.gsub, string.find, string.format, string.byte

local _M = { version = "1.1.0", options = { separator = "&", cumulative_parameters = false, legal_in_query = "" } }
local mt = { __index = _M }
local Query = {}

local function unescape(text)
  return ngx.unescape_uri(text)
end

local function escape(text)
  return (gsub(text, "[^%w%-%._~]", function(char)
    return format("%%%02X", byte(char))
  end))
end

-- Names in alphabetical order; a table's elements as `name[key]`.
function _M.buildQuery(values, separator, prefix)
  separator = separator or _M.options.separator
  local names, parts = {}, {}
  for name in pairs(values) do
    names[#names + 1] = name
  end
  table.sort(names, function(a, b)
    return tostring(a) < tostring(b)
  end)
  for _, name in ipairs(names) do
    local value = values[name]
    local full = escape(tostring(name))
    if prefix then
      full = prefix .. "[" .. full .. "]"
    end
    if type(value) == "table" then
      parts[#parts + 1] = _M.buildQuery(value, separator, full)
    else
      value = escape(tostring(value))
      parts[#parts + 1] = value ~= "" and full .. "=" .. value or full
    end
  end
  return table.concat(parts, separator)
end

Query.__tostring = function(values)
  return _M.buildQuery(values)
end

local function put(values, name, value)
  local outer, inner = match(name, "^([^%[]*)%[([^%]]*)%]$")
  if outer then
    local list = values[outer]
    if type(list) ~= "table" then
      list = {}
      values[outer] = list
    end
    list[inner == "" and #list + 1 or tonumber(inner) or inner] = value
    return
  end
  values[name] = value
end

function _M.parseQuery(text, separator)
  local values = setmetatable({}, Query)
  for part in string.gmatch(text or "", "[^" .. (separator or "&;") .. "]+") do
    local name, value = match(part, "^([^=]*)=?(.*)$")
    put(values, unescape(name), unescape(value))
  end
  return values
end

function _M:setQuery(query)
  self.query = type(query) == "table" and setmetatable(query, Query) or _M.parseQuery(query)
  return query
end

function _M:setAuthority(authority)
  self.authority = authority
  self.userinfo, self.user, self.password, self.host, self.port = nil, nil, nil, nil, nil
  local userinfo, rest = match(authority, "^(.*)@(.*)$")
  if userinfo then
    self.userinfo, authority = userinfo, rest
    self.user, self.password = match(userinfo, "^([^:]*):(.*)$")
    self.user = self.user or userinfo
  end
  local host, port = match(authority, "^(.*):(%d*)$")
  if host and not find(authority, "%]$") then
    authority, self.port = host, tonumber(port)
  end
  self.host = authority ~= "" and authority:lower() or nil
  return authority
end

function _M.parse(text)
  local url = setmetatable({ query = setmetatable({}, Query), path = "" }, mt)
  local rest = tostring(text or "")
  local function take(pattern, accept)
    local first, last, value = find(rest, pattern)
    if first then
      rest = rest:sub(1, first - 1) .. rest:sub(last + 1)
      accept(value)
    end
  end
  take("#(.*)$", function(value) url.fragment = value end)
  take("^([%a][%w%+%-%.]*)%:", function(value) url.scheme = value:lower() end)
  take("%?(.*)$", function(value) url:setQuery(value) end)
  take("^//([^/]*)", function(value) url:setAuthority(value) end)
  url.path = rest
  return url
end

function _M:build()
  local text = self.path or ""
  if text ~= "" and self.host and text:sub(1, 1) ~= "/" then
    text = "/" .. text
  end
  local query = self.query and (type(self.query) == "table" and _M.buildQuery(self.query) or tostring(self.query)) or ""
  if query ~= "" then
    text = text .. "?" .. query
  end
  if self.host then
    local authority = self.host .. (self.port and ":" .. self.port or "")
    local userinfo = self.user and self.user .. (self.password and ":" .. self.password or "") or self.userinfo
    text = "//" .. (userinfo and userinfo .. "@" or "") .. authority .. text
  end
  if self.scheme then
    text = self.scheme .. ":" .. text
  end
  return text .. (self.fragment and "#" .. self.fragment or "")
end
mt.__tostring = _M.build

function _M:resolve(other)
  local absolute = require("socket.url").absolute(tostring(self), tostring(other))
  return _M.parse(absolute)
end

return _M
