-- resty.expr.v1: the expressions of APISIX's `vars`.

local type, tostring, tonumber, ipairs = type, tostring, tonumber, ipairs
local setmetatable = setmetatable
local re_find = ngx.re.find
local ipmatcher = require("resty.ipmatcher")

local DEPTH_MAX = 32
local LOGICAL = { AND = true, OR = true, ["!AND"] = true, ["!OR"] = true }

-- A number for numbers and texts of numbers.
local function both_numbers(left, right)
  left, right = tonumber(left), tonumber(right)
  return left, right, left ~= nil and right ~= nil
end

local function equal(left, right)
  if type(left) == "boolean" or type(right) == "boolean" then
    return tostring(left) == tostring(right)
  elseif type(left) == "number" or type(right) == "number" then
    local a, b, numbers = both_numbers(left, right)
    return numbers and a == b
  end
  return left == right
end

local function found(list, value)
  if type(list) ~= "table" then
    return false
  end
  for _, one in ipairs(list) do
    if equal(value, one) then
      return true
    end
  end
  return false
end

local function ordered(compare)
  return function(left, right)
    local a, b, numbers = both_numbers(left, right)
    return numbers and compare(a, b)
  end
end

local function matching(options)
  return function(left, right)
    if left == nil or type(left) == "table" then
      return false
    end
    return re_find(tostring(left), right, options) ~= nil
  end
end

local function unequal(left, right)
  return not equal(left, right)
end

local operators = {
  ["=="] = equal, ["~="] = unequal, ["!="] = unequal,
  [">"] = ordered(function(a, b) return a > b end), [">="] = ordered(function(a, b) return a >= b end),
  ["<"] = ordered(function(a, b) return a < b end), ["<="] = ordered(function(a, b) return a <= b end),
  ["~~"] = matching("jo"), ["~*"] = matching("joi"),
  ["in"] = function(left, right) return found(right, left) end,
  has = function(left, right) return found(left, right) end,
  ipmatch = function(left, right) return type(left) == "string" and right:match(left) == true end,
}
operators.IN, operators.HAS, operators.IPMATCH = operators["in"], operators.has, operators.ipmatch

local compile

local function compile_test(rule)
  local count = #rule
  if count ~= 3 and count ~= 4 then
    return nil, "invalid expression"
  end
  local name, negated = rule[1], count == 4
  local operator, right = rule[count - 1], rule[count]
  if negated and rule[2] ~= "!" then
    return nil, "bad operator, expect '!'"
  elseif not operators[operator] then
    return nil, "invalid operator '" .. tostring(operator) .. "'"
  end
  local test = operators[operator]
  if test == operators["in"] and type(right) ~= "table" then
    return nil, "operator '" .. operator .. "' expects an array"
  elseif test == operators["~~"] or test == operators["~*"] then
    local _, _, err = re_find("", right)
    if err then
      return nil, err
    end
  elseif test == operators.ipmatch then
    local err
    right, err = ipmatcher.new(type(right) == "table" and right or { right })
    if not right then
      return nil, err
    end
  end
  return function(vars)
    return test(vars[name], right) ~= negated
  end
end

local function compile_all(rules, from, any, negated, depth)
  local parts = {}
  for i = from, #rules do
    local part, err = compile(rules[i], depth + 1)
    if not part then
      return nil, err
    end
    parts[#parts + 1] = part
  end
  return function(vars)
    for i = 1, #parts do
      if parts[i](vars) == any then
        return any ~= negated
      end
    end
    return any == negated
  end
end

function compile(rule, depth)
  if type(rule) ~= "table" then
    return nil, "rule should be wrapped inside brackets"
  elseif depth > DEPTH_MAX then
    return nil, "the expression nests too deeply"
  end
  local first = rule[1]
  if LOGICAL[first] then
    if #rule < 2 then
      return nil, "rules of logical operator '" .. first .. "' are missing"
    end
    return compile_all(rule, 2, first == "OR" or first == "!OR", first:sub(1, 1) == "!", depth)
  elseif type(first) == "table" then
    return compile_all(rule, 1, false, false, depth)
  end
  return compile_test(rule)
end

local _M = {}
local mt = { __index = _M }

function _M.new(rule)
  if type(rule) ~= "table" then
    return nil, "an array of rules is expected"
  elseif rule[1] ~= nil and type(rule[1]) ~= "table" and not LOGICAL[rule[1]] then
    return nil, "rule should be wrapped inside brackets"
  end
  local holds, err = compile_all({ rule[1] and rule }, 1, false, false, 0)
  if not holds then
    return nil, err
  end
  return setmetatable({ holds = holds, rule = rule }, mt)
end

function _M:eval(vars)
  return self.holds(vars or ngx.var)
end

return _M
