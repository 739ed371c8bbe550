-- What OpenResty's LuaJIT adds to `table` and `thread`, as fields and as modules.

local next, type, floor = next, type, math.floor
local preload = package.preload

local shims = { new = require("table.new"), clear = require("table.clear") }

function shims.nkeys(t)
  local count = 0
  for _ in next, t do
    count = count + 1
  end
  return count
end

-- An empty table is an array; holes are allowed.
function shims.isarray(t)
  for key in next, t do
    if type(key) ~= "number" or key < 1 or floor(key) ~= key then
      return false
    end
  end
  return true
end

function shims.isempty(t)
  return next(t) == nil
end

-- A shallow copy, without the metatable.
function shims.clone(t)
  local copy = {}
  for key, value in next, t do
    copy[key] = value
  end
  return copy
end

for name, shim in next, shims do
  table[name] = shim
  preload["table." .. name] = function()
    return shim
  end
end

-- One value for each coroutine, which goes with it.
local values = setmetatable({}, { __mode = "k" })
local running = coroutine.running
local main = {}

local function exdata(...)
  local thread = running() or main
  if select("#", ...) == 0 then
    return values[thread]
  end
  values[thread] = (...)
end

thread = type(thread) == "table" and thread or {}
thread.exdata = exdata
preload["thread.exdata"] = function()
  return exdata
end
