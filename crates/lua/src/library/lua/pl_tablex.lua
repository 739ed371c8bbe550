-- pl.tablex: the functions on tables that need no other part of Penlight.

local type, pairs, next, select = type, pairs, next, select

local _M = {}

function _M.size(t)
  local count = 0
  for _ in pairs(t) do
    count = count + 1
  end
  return count
end

function _M.update(target, source)
  for key, value in pairs(source) do
    target[key] = value
  end
  return target
end

function _M.copy(t)
  return _M.update({}, t)
end

local function deepcopy(value, seen)
  if type(value) ~= "table" then
    return value
  elseif seen[value] then
    return seen[value]
  end
  local copy = {}
  seen[value] = copy
  for key, inner in pairs(value) do
    copy[deepcopy(key, seen)] = deepcopy(inner, seen)
  end
  return setmetatable(copy, getmetatable(value))
end

function _M.deepcopy(t)
  return deepcopy(t, {})
end

local function deepcompare(a, b, ignore_metatable, epsilon, depth)
  if type(a) ~= type(b) then
    return false
  elseif type(a) ~= "table" then
    return a == b or epsilon and type(a) == "number" and math.abs(a - b) <= epsilon or false
  end
  local metatable = getmetatable(a)
  if not ignore_metatable and metatable and metatable.__eq then
    return a == b
  elseif depth > 200 then
    error("the tables nest too deeply", 0)
  end
  for key in pairs(a) do
    if b[key] == nil then
      return false
    end
  end
  for key, value in pairs(b) do
    if not deepcompare(a[key], value, ignore_metatable, epsilon, depth + 1) then
      return false
    end
  end
  return true
end

function _M.deepcompare(a, b, ignore_metatable, epsilon)
  return deepcompare(a, b, ignore_metatable, epsilon, 1)
end

function _M.keys(t)
  local keys = {}
  for key in pairs(t) do
    keys[#keys + 1] = key
  end
  return keys
end

function _M.values(t)
  local values = {}
  for _, value in pairs(t) do
    values[#values + 1] = value
  end
  return values
end

function _M.find(t, value, from)
  from = from or 1
  for i = from < 0 and #t + from + 1 or from, #t do
    if t[i] == value then
      return i
    end
  end
  return nil
end

function _M.find_if(t, compare, argument)
  for key, value in pairs(t) do
    local result = compare(value, argument)
    if result then
      return key, result
    end
  end
  return nil
end

function _M.search(t, value)
  for key, one in pairs(t) do
    if one == value then
      return tostring(key)
    end
  end
  return nil
end

function _M.map(map, t, ...)
  local out = {}
  for key, value in pairs(t) do
    out[key] = map(value, ...)
  end
  return out
end

function _M.imap(map, t, ...)
  local out = {}
  for i = 1, #t do
    out[i] = map(t[i], ...) or false
  end
  return out
end

function _M.filter(t, test, argument)
  local out = {}
  for i = 1, #t do
    if test(t[i], argument) then
      out[#out + 1] = t[i]
    end
  end
  return out
end

function _M.reduce(combine, t, memo)
  local from = 1
  if memo == nil then
    memo, from = t[1], 2
  end
  for i = from, #t do
    memo = combine(memo, t[i])
  end
  return memo
end

function _M.foreach(t, call, ...)
  for key, value in pairs(t) do
    call(value, key, ...)
  end
end

function _M.foreachi(t, call, ...)
  for i = 1, #t do
    call(t[i], i, ...)
  end
end

function _M.merge(a, b, both)
  local out = {}
  for key, value in pairs(a) do
    if both or b[key] ~= nil then
      out[key] = value
    end
  end
  if both then
    _M.update(out, b)
  end
  return out
end

function _M.union(a, b)
  return _M.merge(a, b, true)
end

function _M.intersection(a, b)
  return _M.merge(a, b, false)
end

function _M.difference(a, b, symmetric)
  local out = {}
  for key, value in pairs(a) do
    if b[key] == nil then
      out[key] = value
    end
  end
  if symmetric then
    for key, value in pairs(b) do
      if a[key] == nil then
        out[key] = value
      end
    end
  end
  return out
end

function _M.index_map(t)
  local out = {}
  for i = 1, #t do
    out[t[i]] = i
  end
  return out
end

function _M.makeset(t)
  local out = {}
  for i = 1, #t do
    out[t[i]] = true
  end
  return out
end

function _M.range(from, to, step)
  local out = {}
  step = step or (from > to and -1 or 1)
  for i = from, to, step do
    out[#out + 1] = i
  end
  return out
end

function _M.sub(t, from, to)
  local length = #t
  from, to = from or 1, to or -1
  from = from < 0 and length + from + 1 or from
  to = to < 0 and length + to + 1 or to
  local out = {}
  for i = from, math.min(to, length) do
    out[#out + 1] = t[i]
  end
  return out
end

function _M.insertvalues(t, ...)
  local at, values = ...
  if select("#", ...) == 1 then
    at, values = #t + 1, at
  end
  for i = #t, at, -1 do
    t[i + #values] = t[i]
  end
  for i = 1, #values do
    t[at + i - 1] = values[i]
  end
  return t
end

function _M.clear(t, from)
  for i = from or 1, #t do
    t[i] = nil
  end
end

function _M.sort(t, compare)
  local keys = _M.keys(t)
  table.sort(keys, compare)
  local i = 0
  return function()
    i = i + 1
    local key = keys[i]
    return key, key ~= nil and t[key] or nil
  end
end

function _M.compare(a, b, test)
  if #a ~= #b then
    return false
  end
  for i = 1, #a do
    if not test(a[i], b[i]) then
      return false
    end
  end
  return true
end

function _M.readonly(t)
  return setmetatable({}, {
    __index = t,
    __newindex = function()
      error("Attempt to modify read-only table", 2)
    end,
    __pairs = function()
      return next, t, nil
    end,
    __len = function()
      return #t
    end,
  })
end

return _M
