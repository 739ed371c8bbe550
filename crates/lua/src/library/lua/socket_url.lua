-- socket.url: RFC 3986's parts of a URL.

local match, gsub, sub, byte, format, find = string.match, string.gsub, string.sub, string.byte, string.format, string.find

local _M = { _VERSION = "URL 1.0.3" }

local function percent(char)
  return format("%%%02x", byte(char))
end

function _M.escape(text)
  return (gsub(text, "[^A-Za-z0-9_]", percent))
end

function _M.unescape(text)
  return (gsub(text, "%%(%x%x)", function(digits)
    return string.char(tonumber(digits, 16))
  end))
end

-- Adds the parts to `default`'s: scheme, authority, userinfo, user, password, host, port, path, params, query, fragment.
function _M.parse(url, default)
  local parsed = {}
  for key, value in pairs(default or parsed) do
    parsed[key] = value
  end
  if not url or url == "" then
    return nil, "invalid url"
  end
  local rest = url
  local function take(pattern, name)
    rest = gsub(rest, pattern, function(value)
      parsed[name] = value
      return ""
    end)
  end
  take("#(.*)$", "fragment")
  take("^([%w][%w%+%-%.]*)%:", "scheme")
  take("^//([^/%?]*)", "authority")
  take("%?(.*)$", "query")
  take("%;(.*)$", "params")
  if rest ~= "" then
    parsed.path = rest
  end
  local authority = parsed.authority
  if not authority then
    return parsed
  end
  local userinfo, after = match(authority, "^(.*)@(.*)$")
  if userinfo then
    parsed.userinfo, authority = userinfo, after
    parsed.user, parsed.password = match(userinfo, "^([^:]*):(.*)$")
    parsed.user = parsed.user or userinfo
  end
  local host, port = match(authority, "^(.*):([^:%]]*)$")
  if host then
    authority = host
    parsed.port = port ~= "" and port or nil
  end
  if authority ~= "" then
    parsed.host = match(authority, "^%[(.+)%]$") or authority
  end
  return parsed
end

function _M.build(parsed)
  local url = parsed.path or ""
  if parsed.params then
    url = url .. ";" .. parsed.params
  end
  if parsed.query then
    url = url .. "?" .. parsed.query
  end
  local authority = parsed.authority
  if parsed.host then
    authority = find(parsed.host, ":", 1, true) and "[" .. parsed.host .. "]" or parsed.host
    if parsed.port then
      authority = authority .. ":" .. parsed.port
    end
    local userinfo = parsed.userinfo
    if parsed.user then
      userinfo = parsed.user .. (parsed.password and ":" .. parsed.password or "")
    end
    if userinfo then
      authority = userinfo .. "@" .. authority
    end
  end
  if authority then
    url = "//" .. authority .. url
  end
  if parsed.scheme then
    url = parsed.scheme .. ":" .. url
  end
  if parsed.fragment then
    url = url .. "#" .. parsed.fragment
  end
  return url
end

-- RFC 3986 section 5.2.4.
local function without_dots(path)
  local out = {}
  local absolute = sub(path, 1, 1) == "/"
  local slash = find(path, "/$") or find(path, "/%.%.?$") or path == "." or path == ".."
  for segment in string.gmatch(path, "[^/]+") do
    if segment == ".." then
      if #out > 0 and out[#out] ~= ".." then
        out[#out] = nil
      elseif not absolute then
        out[#out + 1] = segment
      end
    elseif segment ~= "." then
      out[#out + 1] = segment
    end
  end
  local text = (absolute and "/" or "") .. table.concat(out, "/")
  if slash and #out > 0 and sub(text, -1) ~= "/" then
    text = text .. "/"
  end
  return text
end

-- The URL that `relative` is at `base`, which is a URL or its parts.
function _M.absolute(base, relative)
  local parts = type(base) == "table" and base or _M.parse(base)
  base = type(base) == "table" and _M.build(base) or base
  local target = _M.parse(relative)
  if not parts then
    return relative
  elseif not target then
    return base
  elseif target.scheme then
    return relative
  end
  target.scheme = parts.scheme
  if not target.authority then
    for _, name in ipairs({ "authority", "userinfo", "user", "password", "host", "port" }) do
      target[name] = parts[name]
    end
    if not target.path then
      target.path = parts.path
      if not target.params then
        target.params = parts.params
        target.query = target.query or parts.query
      end
    elseif sub(target.path, 1, 1) ~= "/" then
      local folder = match(parts.path or "", "^(.*/)") or (target.authority and "/" or "")
      target.path = folder .. target.path
    end
  end
  if target.path then
    target.path = without_dots(target.path)
  end
  return _M.build(target)
end

function _M.parse_path(path)
  local parsed = {}
  path = path or ""
  for segment in string.gmatch(path, "[^/]+") do
    parsed[#parsed + 1] = _M.unescape(segment)
  end
  parsed.is_absolute = sub(path, 1, 1) == "/" and 1 or nil
  parsed.is_directory = sub(path, -1) == "/" and 1 or nil
  return parsed
end

function _M.build_path(parsed, unsafe)
  local segments = {}
  for i = 1, #parsed do
    segments[i] = unsafe and parsed[i] or gsub(parsed[i], "[^A-Za-z0-9%-_%.!~%*'%(%):@&=%+%$,]", percent)
  end
  local path = table.concat(segments, "/")
  if parsed.is_directory and #parsed > 0 then
    path = path .. "/"
  end
  return (parsed.is_absolute and "/" or "") .. path
end

return _M
