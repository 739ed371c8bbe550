-- The module `ngx.re`: `split`, and `opt`, whose options PCRE2 doesn't need here.

local find, match, sub = ngx.re.find, ngx.re.match, string.sub

local _M = { version = "0.1.28" }

function _M.opt(option)
  if option ~= "jit_stack_size" then
    error("unrecognized option name", 2)
  end
end

-- Splits `subject` at the matches of `regex`, whose first group is a part as well; at most `max` parts.
function _M.split(subject, regex, options, ctx, max, res)
  if max == nil or max < 0 then
    max = 0
  end
  res = res or {}
  local count, from, length = 0, ctx and ctx.pos or 1, #subject
  if from > length then
    res[1] = ""
    res[2] = nil
    return res
  end
  local state = { pos = from }
  while not (max > 0 and count >= max - 1) do
    local start = state.pos
    if start > length then
      break
    end
    local first, last, err = find(subject, regex, options, state)
    if err then
      return nil, err
    elseif not first then
      break
    end
    if last < first then
      -- An empty match splits between characters, never before the first or after the last one.
      if first > length then
        break
      end
      state.pos = first + 1
      if first > from then
        count = count + 1
        res[count] = sub(subject, from, first - 1)
        from = first
      end
    else
      count = count + 1
      res[count] = sub(subject, from, first - 1)
      local groups = match(subject, regex, options, { pos = first })
      if groups and groups[1] then
        count = count + 1
        res[count] = groups[1]
      end
      from = last + 1
      state.pos = from
    end
  end
  count = count + 1
  res[count] = sub(subject, from)
  res[count + 1] = nil
  return res
end

return _M
