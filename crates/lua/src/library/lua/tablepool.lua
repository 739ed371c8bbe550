-- tablepool: tables to use again, by a tag.

local clear, new = table.clear, table.new

-- Tables that a pool keeps.
local KEPT_MAX = 200
local pools = {}
local _M = { _VERSION = "0.01" }

function _M.fetch(tag, narr, nrec)
  local pool = pools[tag]
  local count = pool and #pool or 0
  if count == 0 then
    return new(narr, nrec)
  end
  local t = pool[count]
  pool[count] = nil
  return t
end

function _M.release(tag, t, keep)
  if not t then
    error("object empty", 2)
  end
  local pool = pools[tag]
  if not pool then
    pool = {}
    pools[tag] = pool
  end
  if not keep then
    setmetatable(t, nil)
    clear(t)
  end
  if #pool < KEPT_MAX then
    pool[#pool + 1] = t
  end
end

return _M
