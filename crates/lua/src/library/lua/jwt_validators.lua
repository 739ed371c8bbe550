-- resty.jwt-validators. A validator takes the claim's value, its name and the token as JSON; it returns false or raises an
-- error if the claim doesn't hold.

local type, error, pcall, tostring, tonumber = type, error, pcall, tostring, tonumber
local ipairs, concat = ipairs, table.concat

local _M = { _VERSION = "0.2.3" }
local leeway = 0
local clock = ngx.now

function _M.set_system_leeway(seconds)
  if type(seconds) ~= "number" or seconds < 0 then
    error("set_system_leeway function expects a positive number", 2)
  end
  leeway = seconds
end

function _M.set_system_clock(new)
  if type(new) ~= "function" or type(new()) ~= "number" then
    error("set_system_clock function expects a function that returns a number", 2)
  end
  clock = new
end

local function raise(message)
  error({ reason = message }, 0)
end

local function expect(condition, message)
  if not condition then
    error(message, 3)
  end
end

function _M.chain(...)
  local chained = { ... }
  for _, validator in ipairs(chained) do
    expect(type(validator) == "function", "All chained validators must be functions")
  end
  return function(value, claim, json)
    for _, validator in ipairs(chained) do
      if validator(value, claim, json) == false then
        return false
      end
    end
    return true
  end
end

local function required(validator)
  expect(validator == nil or type(validator) == "function", "Required function must be a function")
  return function(value, claim, json)
    if value == nil then
      raise("'" .. tostring(claim) .. "' claim is required.")
    elseif validator then
      return validator(value, claim, json)
    end
    return true
  end
end
_M.required = required

local function optional(validator)
  return function(value, claim, json)
    if value == nil then
      return true
    end
    return validator(value, claim, json)
  end
end

function _M.require_one_of(claims)
  expect(type(claims) == "table" and #claims > 0, "Cannot create validator with an empty claim list")
  return function(token)
    for _, claim in ipairs(claims) do
      if token.payload and token.payload[claim] ~= nil then
        return true
      end
    end
    raise("Missing one of claims - [ " .. concat(claims, ", ") .. " ].")
  end
end

-- Each of these makes a check of a value that isn't nil. `name` fails without a value, `opt_name` doesn't, and
-- `required_name` says that it is required.
local checks = {}

function checks.check(expected, compare, name, kind)
  expect(expected ~= nil, "Cannot create validator for nil check_val.")
  expect(type(compare) == "function", "Cannot create validator for nil check_function.")
  kind = kind or type(expected)
  name = name or "check_value"
  return function(value, claim)
    if type(value) ~= kind then
      raise("'" .. tostring(claim) .. "' is malformed.  Expected to be a " .. kind .. ".")
    end
    local ok, result = pcall(compare, value, expected)
    if not ok then
      raise("'" .. tostring(claim) .. "' " .. name .. " failed: " .. tostring(result))
    end
    return result
  end
end

function checks.equals(expected)
  expect(expected ~= nil, "Cannot create validator for nil check_val.")
  return checks.check(expected, function(value)
    return value == expected
  end)
end

function checks.matches(pattern)
  expect(type(pattern) == "string", "Cannot create validator for non-string pattern.")
  return checks.check(pattern, function(value)
    return string.match(value, pattern) ~= nil
  end)
end

function checks.any_of(expected, compare, name, kind, table_kind)
  expect(type(expected) == "table" and #expected > 0, "Cannot create validator for empty table check_values.")
  expect(type(compare) == "function", "Cannot create validator for nil check_function.")
  kind = kind or table_kind or type(expected[1])
  name = name or "check_values"
  return checks.check(expected, function(value)
    for _, one in ipairs(expected) do
      if compare(value, one) then
        return true
      end
    end
    return false
  end, name, kind)
end

function checks.equals_any_of(expected)
  return checks.any_of(expected, function(value, one)
    return value == one
  end)
end

function checks.matches_any_of(patterns)
  return checks.any_of(patterns, function(value, pattern)
    return string.match(value, pattern) ~= nil
  end)
end

for name, compare in pairs({
  greater_than = function(a, b) return a > b end,
  greater_than_or_equal = function(a, b) return a >= b end,
  less_than = function(a, b) return a < b end,
  less_than_or_equal = function(a, b) return a <= b end,
}) do
  checks[name] = function(expected)
    expect(type(expected) == "number", "Cannot create validator for non-number check_val.")
    return checks.check(expected, compare)
  end
end

local function timed(holds, message)
  return function(own_leeway)
    return function(value, claim)
      local moment = tonumber(value)
      if type(value) ~= "number" or not moment then
        raise("'" .. tostring(claim) .. "' is malformed.  Expected to be a positive numeric value.")
      elseif not holds(moment, clock(), own_leeway or leeway) then
        raise("'" .. tostring(claim) .. "' claim " .. message .. " " .. tostring(ngx.http_time(moment) or moment))
      end
      return true
    end
  end
end

checks.is_not_before = timed(function(value, now, slack)
  return value <= now + slack
end, "not valid until")
checks.is_not_expired = timed(function(value, now, slack)
  return value > now - slack
end, "expired at")
checks.is_at = timed(function(value, now, slack)
  return value >= now - slack and value <= now + slack
end, "is only valid at")

for name, make in pairs(checks) do
  _M["opt_" .. name] = function(...)
    return optional(make(...))
  end
  _M["required_" .. name] = function(...)
    return required(make(...))
  end
  _M[name] = _M["required_" .. name]
end

return _M
