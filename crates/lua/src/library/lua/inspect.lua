-- inspect: a value as readable text.

local type, tostring, format, rep = type, tostring, string.format, string.rep
local gsub, match, huge, floor = string.gsub, string.match, math.huge, math.floor

local KEYWORDS = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true until while")
  :gmatch("%a+") do
  KEYWORDS[word] = true
end
local ESCAPES = { ["\a"] = "\\a", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\v"] = "\\v",
  ["\127"] = "\\127" }

local function quoted(text)
  local escaped = gsub(gsub(text, "\\", "\\\\"), "%c", function(char)
    return ESCAPES[char] or format("\\%03d", char:byte())
  end)
  if match(text, '"') and not match(text, "'") then
    return "'" .. escaped .. "'"
  end
  return '"' .. gsub(escaped, '"', '\\"') .. '"'
end

local ORDER = { number = 1, boolean = 2, string = 3, table = 4, ["function"] = 5, userdata = 6, thread = 7 }

local function before(a, b)
  local kind_a, kind_b = type(a), type(b)
  if kind_a == kind_b and (kind_a == "string" or kind_a == "number") then
    return a < b
  elseif kind_a == kind_b then
    return tostring(a) < tostring(b)
  end
  return (ORDER[kind_a] or 9) < (ORDER[kind_b] or 9)
end

local _M = { _VERSION = "inspect.lua 3.1.0", KEY = {}, METATABLE = {} }

local function count_tables(value, counts)
  if type(value) ~= "table" then
    return
  elseif counts[value] then
    counts[value] = counts[value] + 1
    return
  end
  counts[value] = 1
  for key, inner in next, value do
    count_tables(key, counts)
    count_tables(inner, counts)
  end
  count_tables(getmetatable(value), counts)
end

local function named(self, value)
  local kind = type(value)
  local id = self.ids[value]
  if not id then
    id = (self.last[kind] or 0) + 1
    self.last[kind], self.ids[value] = id, id
  end
  return kind, id
end

local write

local function write_table(self, value, level)
  local out = self.out
  if self.seen[value] then
    local _, id = named(self, value)
    out[#out + 1] = "<table " .. id .. ">"
    return
  elseif level >= self.depth then
    out[#out + 1] = "{...}"
    return
  end
  self.seen[value] = true
  if self.counts[value] > 1 then
    local _, id = named(self, value)
    out[#out + 1] = "<" .. id .. ">"
  end
  local length, keys = #value, {}
  for key in next, value do
    if not (type(key) == "number" and key >= 1 and key <= length and floor(key) == key) then
      keys[#keys + 1] = key
    end
  end
  table.sort(keys, before)
  local metatable = getmetatable(value)
  local shown_metatable = type(metatable) == "table" and metatable
  local broken = #keys > 0 or shown_metatable
  local function break_line()
    out[#out + 1] = self.newline .. rep(self.indent, level + 1)
  end
  out[#out + 1] = "{"
  for i = 1, length do
    out[#out + 1] = i > 1 and ", " or " "
    write(self, value[i], level + 1)
  end
  for i, key in ipairs(keys) do
    out[#out + 1] = (i > 1 or length > 0) and "," or ""
    break_line()
    if type(key) == "string" and match(key, "^[%a_][%w_]*$") and not KEYWORDS[key] then
      out[#out + 1] = key
    else
      out[#out + 1] = "["
      write(self, key, level + 1)
      out[#out + 1] = "]"
    end
    out[#out + 1] = " = "
    write(self, value[key], level + 1)
  end
  if shown_metatable then
    out[#out + 1] = (#keys > 0 or length > 0) and "," or ""
    break_line()
    out[#out + 1] = "<metatable> = "
    write(self, shown_metatable, level + 1)
  end
  if broken then
    out[#out + 1] = self.newline .. rep(self.indent, level)
  elseif length > 0 then
    out[#out + 1] = " "
  end
  out[#out + 1] = "}"
end

function write(self, value, level)
  local kind = type(value)
  if kind == "string" then
    self.out[#self.out + 1] = quoted(value)
  elseif kind == "table" then
    write_table(self, value, level)
  elseif kind == "number" then
    self.out[#self.out + 1] = value == huge and "math.huge" or value == -huge and "-math.huge" or tostring(value)
  elseif kind == "boolean" or kind == "nil" then
    self.out[#self.out + 1] = tostring(value)
  else
    local _, id = named(self, value)
    self.out[#self.out + 1] = "<" .. kind .. " " .. id .. ">"
  end
end

-- Applies `process` to every value; what it returns takes the value's place.
local function processed(process, item, path, visited)
  if item == nil then
    return nil
  elseif visited[item] then
    return visited[item]
  end
  local value = process(item, path)
  if type(value) ~= "table" then
    return value
  end
  local copy = {}
  visited[item] = copy
  for key, inner in next, value do
    local inner_path = { unpack(path) }
    inner_path[#inner_path + 1] = key
    local new_key = processed(process, key, inner_path, visited)
    if new_key ~= nil then
      copy[new_key] = processed(process, inner, inner_path, visited)
    end
  end
  return setmetatable(copy, getmetatable(value))
end

function _M.inspect(value, options)
  options = options or {}
  if options.process then
    value = processed(options.process, value, {}, {})
  end
  local self = {
    depth = options.depth or huge, newline = options.newline or "\n", indent = options.indent or "  ",
    out = {}, seen = {}, counts = {}, ids = {}, last = {},
  }
  count_tables(value, self.counts)
  write(self, value, 0)
  return table.concat(self.out)
end

return setmetatable(_M, {
  __call = function(_, value, options)
    return _M.inspect(value, options)
  end,
})
