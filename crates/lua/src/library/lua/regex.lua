-- `ngx.re`.

local native = ...
local type, tostring, error = type, tostring, error
local sub, concat, floor, min = string.sub, table.concat, math.floor, math.min
local exec, search, replace_all = native.regex_exec, native.regex_find, native.regex_replace

local function text(value)
  if type(value) == "string" then
    return value
  end
  return tostring(value)
end

local function options_of(options)
  if options == nil then
    return nil
  end
  return text(options)
end

-- Where the search begins: `ctx.pos`.
local function begin(ctx)
  if ctx == nil then
    return 1
  elseif type(ctx) ~= "table" then
    error("ctx is not a table", 3)
  end
  local pos = ctx.pos
  if type(pos) ~= "number" or not (pos >= 1) then
    return 1
  end
  return floor(min(pos, 2 ^ 31))
end

local re = {}

function re.match(subject, regex, options, ctx, result)
  local captures, from, to = exec(text(subject), text(regex), options_of(options), begin(ctx), result)
  if not captures then
    if to == true then
      error(from, 2)
    end
    return nil, from
  end
  if ctx then
    ctx.pos = to + 1
  end
  return captures
end

function re.find(subject, regex, options, ctx, nth)
  if nth ~= nil and (type(nth) ~= "number" or not (nth >= 0 and nth < 65536)) then
    return nil, nil, "nth out of bound"
  end
  local from, to, err, next_pos = search(text(subject), text(regex), options_of(options), begin(ctx), nth and floor(nth))
  if not from then
    if err == true then
      error(to, 2)
    end
    return nil, nil, to
  end
  if ctx then
    ctx.pos = next_pos
  end
  return from, to
end

function re.gmatch(subject, regex, options)
  subject, regex, options = text(subject), text(regex), options_of(options)
  -- A pattern that doesn't compile is reported now.
  local found, message, raised = search("", regex, options, 1)
  if not found and message then
    if raised == true then
      error(message, 2)
    end
    return nil, message
  end
  local pos = 1
  return function()
    if not pos or pos > #subject + 1 then
      return nil
    end
    local captures, from, _, following = exec(subject, regex, options, pos)
    if not captures then
      pos = nil
      return nil, from
    end
    pos = following
    return captures
  end
end

-- A replacement that is a function: its results are joined in the VM's memory.
local function replaced_by(subject, regex, replace, options, global)
  local parts, count, copied, pos = {}, 0, 1, 1
  repeat
    local captures, from, to, following = exec(subject, regex, options, pos)
    if not captures then
      if to == true then
        error(from, 3)
      elseif from then
        return nil, nil, from
      end
      break
    end
    local part = replace(captures)
    if type(part) == "number" then
      part = tostring(part)
    elseif type(part) ~= "string" then
      error("string or number expected to be returned by the replace function, got " .. type(part), 3)
    end
    parts[#parts + 1] = sub(subject, copied, from - 1)
    parts[#parts + 1] = part
    count = count + 1
    if to + 1 > copied then
      copied = to + 1
    end
    pos = following > pos and following or pos + 1
  until not global or pos > #subject + 1
  parts[#parts + 1] = sub(subject, copied)
  return concat(parts), count
end

local function replaced(subject, regex, replace, options, global)
  subject, regex, options = text(subject), text(regex), options_of(options)
  if type(replace) == "function" then
    return replaced_by(subject, regex, replace, options, global)
  end
  local result, count, raised = replace_all(subject, regex, text(replace), options, global)
  if not result then
    if raised == true then
      error(count, 3)
    end
    return nil, nil, count
  end
  return result, count
end

function re.sub(subject, regex, replace, options)
  return replaced(subject, regex, replace, options, false)
end

function re.gsub(subject, regex, replace, options)
  return replaced(subject, regex, replace, options, true)
end

ngx.re = re
