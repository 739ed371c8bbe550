-- pl.stringx: the functions on strings that need no other part of Penlight.

local find, sub, rep, gsub = string.find, string.sub, string.rep, string.gsub

local _M = {}

for name, pattern in pairs({
  isalpha = "^%a+$", isdigit = "^%d+$", isalnum = "^%w+$", isspace = "^%s+$",
}) do
  _M[name] = function(text)
    return find(text, pattern) == 1
  end
end

function _M.islower(text)
  return find(text, "%l") ~= nil and text == text:lower()
end

function _M.isupper(text)
  return find(text, "%u") ~= nil and text == text:upper()
end

local function any(test)
  return function(text, part)
    if type(part) == "table" then
      for _, one in ipairs(part) do
        if test(text, one) then
          return true
        end
      end
      return false
    end
    return test(text, part)
  end
end

_M.startswith = any(function(text, prefix)
  return sub(text, 1, #prefix) == prefix
end)
_M.endswith = any(function(text, suffix)
  return #text >= #suffix and sub(text, #text - #suffix + 1) == suffix
end)

function _M.join(separator, parts)
  return table.concat(parts, separator)
end

function _M.splitlines(text, keep_ends)
  local lines, at = {}, 1
  while at <= #text do
    local first, last = find(text, "\r?\n", at)
    if not first then
      lines[#lines + 1] = sub(text, at)
      break
    end
    lines[#lines + 1] = sub(text, at, keep_ends and last or first - 1)
    at = last + 1
  end
  return lines
end

-- Without a separator: at white space. At most `count` splits.
function _M.split(text, separator, count)
  local parts, at = {}, 1
  if not separator then
    text = gsub(text, "^%s+", "")
    if text == "" then
      return parts
    end
  end
  while true do
    local first, last = find(text, separator or "%s+", at, separator ~= nil)
    if not first or last < first or count and #parts >= count then
      break
    end
    parts[#parts + 1] = sub(text, at, first - 1)
    at = last + 1
  end
  if separator or at <= #text then
    parts[#parts + 1] = sub(text, at)
  end
  return parts
end

function _M.expandtabs(text, size)
  size = size or 8
  local column = 0
  return (gsub(text, "[^\t\n]*[\t\n]?", function(part)
    local last = sub(part, -1)
    if last == "\n" then
      column = 0
      return part
    elseif last ~= "\t" then
      column = column + #part
      return part
    end
    local width = column + #part - 1
    local spaces = size - width % size
    column = width + spaces
    return sub(part, 1, -2) .. rep(" ", spaces)
  end))
end

function _M.lfind(text, part, first, last)
  local at = find(text, part, first or 1, true)
  return at and (not last or at + #part - 1 <= last) and at or nil
end

function _M.rfind(text, part, first, last)
  local result
  local at = find(text, part, first or 1, true)
  while at and (not last or at + #part - 1 <= last) do
    result = at
    at = find(text, part, at + 1, true)
  end
  return result
end

function _M.count(text, part)
  local count, at = 0, 1
  if part == "" then
    return #text + 1
  end
  while true do
    local first, last = find(text, part, at, true)
    if not first then
      return count
    end
    count, at = count + 1, last + 1
  end
end

function _M.replace(text, old, new, max)
  return (gsub(text, (gsub(old, "%p", "%%%0")), (gsub(new, "%%", "%%%%")), max))
end

local function padded(text, width, char, left, right)
  local missing = width - #text
  if missing <= 0 then
    return text
  end
  local before = left and right and math.floor(missing / 2) or left and missing or 0
  return rep(char or " ", before) .. text .. rep(char or " ", missing - before)
end

function _M.ljust(text, width, char)
  return padded(text, width, char, false, true)
end

function _M.rjust(text, width, char)
  return padded(text, width, char, true, false)
end

function _M.center(text, width, char)
  return padded(text, width, char, true, true)
end

local function class(chars)
  return chars and "[" .. gsub(chars, "[%]%[%^%-%%]", "%%%0") .. "]" or "%s"
end

function _M.lstrip(text, chars)
  return (gsub(text, "^" .. class(chars) .. "+", ""))
end

function _M.rstrip(text, chars)
  local at, set = #text, class(chars)
  while at > 0 and find(sub(text, at, at), set) do
    at = at - 1
  end
  return sub(text, 1, at)
end

function _M.strip(text, chars)
  return _M.rstrip(_M.lstrip(text, chars), chars)
end

function _M.partition(text, separator)
  local first, last = find(text, separator, 1, true)
  if not first then
    return text, "", ""
  end
  return sub(text, 1, first - 1), separator, sub(text, last + 1)
end

function _M.rpartition(text, separator)
  local at = _M.rfind(text, separator)
  if not at then
    return "", "", text
  end
  return sub(text, 1, at - 1), separator, sub(text, at + #separator)
end

function _M.at(text, index)
  return sub(text, index, index)
end

function _M.title(text)
  return (gsub(text, "(%S)(%S*)", function(first, rest)
    return first:upper() .. rest:lower()
  end))
end

function _M.shorten(text, width, tail)
  if #text <= width then
    return text
  elseif width <= 3 then
    return sub("...", 1, width)
  end
  return tail and "..." .. sub(text, #text - width + 4) or sub(text, 1, width - 3) .. "..."
end

return _M
