-- apisix.core.table.

local type, select, pairs, ipairs, tostring = type, select, pairs, ipairs, tostring
local getmetatable, setmetatable = getmetatable, setmetatable
local nkeys, isarray, byte, sub = table.nkeys, table.isarray, string.byte, string.sub
local null = ngx.null

local _M = setmetatable({
  version = 0.2, new = table.new, clear = table.clear, nkeys = nkeys, insert = table.insert, concat = table.concat,
  sort = table.sort, clone = table.clone, isarray = isarray, isempty = table.isempty,
}, { __index = table })

function _M.insert_tail(t, ...)
  local length = #t
  for i = 1, select("#", ...) do
    length = length + 1
    t[length] = (select(i, ...))
  end
  return length
end

function _M.set(t, ...)
  for i = 1, select("#", ...) do
    t[i] = (select(i, ...))
  end
end

function _M.try_read_attr(t, ...)
  for i = 1, select("#", ...) do
    if type(t) ~= "table" then
      return nil
    end
    t = t[(select(i, ...))]
  end
  return t
end

local function array_find(array, value)
  if type(array) == "table" then
    for i, one in ipairs(array) do
      if one == value then
        return i
      end
    end
  end
  return nil
end
_M.array_find = array_find

-- Whether the members of the table at `path` are copied as references: `prefix` is the path or one above it.
local function below(path, prefix)
  return sub(path, 1, #prefix) == prefix and (#path == #prefix or byte(path, #prefix + 1) == 46)
end

local function deepcopy(value, seen, path, options)
  local copy = {}
  seen[value] = copy
  for key, inner in pairs(value) do
    local inner_path = options and path .. "." .. tostring(key)
    if type(inner) ~= "table" or options and (array_find(options.shallows, inner_path)
      or options.shallow_prefix and below(path, options.shallow_prefix)) then
      copy[key] = inner
    else
      copy[key] = seen[inner] or deepcopy(inner, seen, inner_path, options)
    end
  end
  return setmetatable(copy, getmetatable(value))
end

-- `options.shallows`: paths from `self` whose values aren't copied.
function _M.deepcopy(value, options)
  if type(value) ~= "table" then
    return value
  end
  return deepcopy(value, {}, "self", options)
end

-- Objects are merged, everything else is replaced, null removes.
local function merge(target, source)
  for key, value in pairs(source) do
    local present = target[key]
    if value == null then
      target[key] = nil
    elseif type(value) == "table" and type(present) == "table" and not isarray(present) and not isarray(value) then
      merge(present, value)
    else
      target[key] = value
    end
  end
  return target
end
_M.merge = merge

-- Puts `conf` at a path of names with `/` between them. Returns an HTTP status and a message, or nil, nil and the value.
function _M.patch(value, path, conf)
  local names, err = require("ngx.re").split(path, "/")
  if not names then
    return 400, err
  end
  local at = value
  for i = 1, #names - 1 do
    local name = names[i]
    if at[name] == nil then
      at[name] = {}
    end
    at = at[name]
    if type(at) ~= "table" then
      return 400, "invalid sub-path: /" .. table.concat(names, "/", 1, i)
    end
  end
  if type(at) ~= "table" then
    return 400, "invalid sub-path: /" .. path
  end
  local last = names[#names]
  if last == nil or last == "" then
    return nil, nil, conf
  end
  at[last] = conf
  return nil, nil, value
end

-- Whether two tables have the same keys.
function _M.set_eq(a, b)
  if nkeys(a) ~= nkeys(b) then
    return false
  end
  for key in pairs(a) do
    if b[key] == nil then
      return false
    end
  end
  return true
end

local function deep_eq(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then
    return a == b
  elseif nkeys(a) ~= nkeys(b) then
    return false
  end
  for key, value in pairs(a) do
    if not deep_eq(value, b[key]) then
      return false
    end
  end
  return true
end
_M.deep_eq = deep_eq

function _M.pick(t, attributes)
  local picked = {}
  for key, value in pairs(t) do
    if attributes[key] ~= nil then
      picked[key] = value
    end
  end
  return picked
end

return _M
