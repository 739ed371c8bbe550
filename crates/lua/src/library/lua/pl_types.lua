-- pl.types.

local type, getmetatable = type, getmetatable

local _M = {}

function _M.is_callable(value)
  local metatable = getmetatable(value)
  return type(value) == "function" or type(metatable) == "table" and metatable.__call ~= nil
end

function _M.is_type(value, kind)
  if type(kind) == "string" then
    return type(value) == kind
  end
  return getmetatable(value) == kind
end

function _M.is_integer(value)
  return math.ceil(value) == value
end

local function has(name)
  return function(value)
    if type(value) == "table" or name == "__len" and type(value) == "string" then
      return true
    end
    local metatable = getmetatable(value)
    return type(metatable) == "table" and metatable[name] ~= nil
  end
end

_M.is_indexable = has("__index")
_M.is_iterable = has("__pairs")
_M.is_writeable = has("__newindex")

-- Whether the value is nil, an empty table or an empty string; with `ignore_spaces`, also one of white space.
function _M.is_empty(value, ignore_spaces)
  if value == nil then
    return true
  elseif type(value) == "table" then
    return next(value) == nil
  elseif type(value) == "string" then
    return value == "" or (ignore_spaces and value:find("^%s+$") ~= nil or false)
  end
  return true
end

local TRUE = { yes = true, y = true, ["true"] = true, t = true, ["1"] = true }

function _M.to_bool(value, true_strings, check_objects)
  if type(value) == "string" then
    value = value:lower()
    for _, text in ipairs(true_strings or {}) do
      if value == text:lower() then
        return true
      end
    end
    return TRUE[value] or false
  elseif type(value) == "number" then
    return value ~= 0
  elseif type(value) == "boolean" then
    return value
  end
  return check_objects and value ~= nil and not _M.is_empty(value) or false
end

function _M.type(value)
  local kind = type(value)
  if kind == "table" or kind == "userdata" then
    local metatable = getmetatable(value)
    return type(metatable) == "table" and metatable._name or kind
  end
  return kind
end

return _M
