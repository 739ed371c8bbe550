-- apisix.core.lrucache. `serial_creating` has no effect: two requests may create the same object at once.

local new_cache = require("resty.lrucache").new
local pairs, unpack, select = pairs, unpack, select

local ITEMS, TTL_S = 1024, 60 * 60
local PLUGIN_ITEMS, PLUGIN_TTL_S = 8, 5 * 60

-- Objects that are out of date and still used: by cache and key, how to make them anew.
local waiting = {}
local scheduled = false

local function refresh()
  scheduled = false
  local jobs = waiting
  waiting = {}
  for cache, keys in pairs(jobs) do
    for key, job in pairs(keys) do
      local value, err = job.create(unpack(job.arguments, 1, job.count))
      if value ~= nil then
        cache:set(key, { value = value, version = job.version }, job.ttl)
      elseif ngx.log then
        ngx.log(ngx.ERR, "failed to refresh stale obj for key ", key, ": ", err)
      end
    end
  end
end

local function schedule(cache, key, job)
  waiting[cache] = waiting[cache] or {}
  waiting[cache][key] = job
  if not scheduled and ngx.timer and ngx.timer.at then
    scheduled = ngx.timer.at(0, function()
      refresh()
    end) and true or false
  end
end

local function new(options)
  options = options or {}
  local plugin = options.type == "plugin"
  local ttl = options.ttl or (plugin and PLUGIN_TTL_S or TTL_S)
  local cache = new_cache(options.count or (plugin and PLUGIN_ITEMS or ITEMS))
  local negative = options.neg_ttl and options.neg_count and new_cache(options.neg_count)
  -- A time to live of 0 is none.
  local expiry = ttl > 0 and ttl or nil

  -- The object of `key` and `version`, made by `create` with the other arguments if it isn't there.
  return function(key, version, create, ...)
    local failed = negative and negative:get(key)
    if failed and failed.version == version then
      return nil, failed.err
    end
    local item, stale = cache:get(key)
    if item and item.version == version then
      return item.value
    elseif stale and stale.version == version and not options.invalid_stale then
      cache:set(key, stale, expiry)
      return stale.value
    elseif stale and stale.version == version and options.refresh_stale then
      schedule(cache, key, {
        create = create, arguments = { ... }, count = select("#", ...), version = version, ttl = expiry,
      })
      return stale.value
    end
    local value, err = create(...)
    if value ~= nil then
      cache:set(key, { value = value, version = version }, expiry)
    elseif negative then
      negative:set(key, { err = err, version = version }, options.neg_ttl)
    end
    return value, err
  end
end

local function key_and_version(ctx, extra)
  local key = ctx.conf_type .. "#" .. ctx.conf_id
  return extra and key .. "#" .. extra or key, ctx.conf_version
end

return {
  version = 0.1,
  new = new,
  global = new(),
  plugin_ctx = function(lrucache, ctx, extra, create, ...)
    local key, version = key_and_version(ctx, extra)
    return lrucache(key, version, create, ...)
  end,
  plugin_ctx_id = function(ctx, extra)
    local key, version = key_and_version(ctx, extra)
    return key .. "#" .. version
  end,
  init_worker = function() end,
}
