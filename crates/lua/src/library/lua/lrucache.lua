-- resty.lrucache: a table and a doubly linked list, the item used last at its head.

local native = ...
local now = native.now
local setmetatable, type = setmetatable, type

local _M = { _VERSION = "0.15" }
local mt = { __index = _M }

local function unlink(item)
  item.before.after = item.after
  item.after.before = item.before
end

local function link_first(list, item)
  item.before, item.after = list, list.after
  list.after.before = item
  list.after = item
end

function _M.new(size)
  if type(size) ~= "number" or size < 1 then
    return nil, "size too small"
  end
  local list = {}
  list.before, list.after = list, list
  return setmetatable({ size = size, used = 0, items = {}, list = list }, mt)
end

-- The value; or nil and the value that expired.
function _M:get(key)
  local item = self.items[key]
  if not item then
    return nil
  end
  unlink(item)
  link_first(self.list, item)
  if item.expires and item.expires < now() then
    return nil, item.value, item.flags
  end
  return item.value, nil, item.flags
end

function _M:set(key, value, ttl, flags)
  local item = self.items[key]
  if item then
    unlink(item)
  elseif self.used >= self.size then
    item = self.list.before
    unlink(item)
    self.items[item.key] = nil
    item = {}
  else
    item = {}
    self.used = self.used + 1
  end
  item.key, item.value, item.flags = key, value, type(flags) == "number" and flags >= 0 and flags or 0
  item.expires = ttl and now() + ttl or nil
  self.items[key] = item
  link_first(self.list, item)
end

function _M:delete(key)
  local item = self.items[key]
  if not item then
    return false
  end
  unlink(item)
  self.items[key] = nil
  self.used = self.used - 1
  return true
end

function _M:count()
  return self.used
end

function _M:capacity()
  return self.size
end

-- The keys, the one used last first.
function _M:get_keys(max, res)
  if not max or max == 0 then
    max = self.used
  end
  res = res or {}
  local count, item = 0, self.list.after
  while count < max and item ~= self.list do
    count = count + 1
    res[count] = item.key
    item = item.after
  end
  res[count + 1] = nil
  return res
end

function _M:flush_all()
  local list = self.list
  list.before, list.after = list, list
  self.items, self.used = {}, 0
end

return _M
