-- `ngx.shared`: dictionaries that all workers share.
local host = ...
local ngx = ngx
local setmetatable, tostring, type, error = setmetatable, tostring, type, error

local function key_of(key)
    if key == nil then
        return nil, "nil key"
    end
    key = tostring(key)
    if key == "" then
        return nil, "empty key"
    end
    return key
end

local methods = {}

function methods.get(self, key)
    local name, why = key_of(key)
    if not name then
        return nil, why
    end
    return host.dict_get(self.name, name, false)
end

function methods.get_stale(self, key)
    local name, why = key_of(key)
    if not name then
        return nil, why
    end
    return host.dict_get(self.name, name, true)
end

local function setter(mode)
    return function(self, key, value, ttl, flags)
        local name, why = key_of(key)
        if not name then
            return nil, why
        end
        local ok, err, forcible = host.dict_set(self.name, mode, name, value, ttl or 0, flags or 0)
        return ok, err, forcible
    end
end
methods.set, methods.add, methods.replace = setter("set"), setter("add"), setter("replace")
methods.safe_set, methods.safe_add = methods.set, methods.add

function methods.delete(self, key)
    return methods.set(self, key, nil)
end

function methods.incr(self, key, by, init, ttl)
    local name, why = key_of(key)
    if not name then
        return nil, why
    end
    if type(by) ~= "number" then
        error("bad argument #2 to 'incr' (number expected)", 2)
    end
    return host.dict_incr(self.name, name, by, init, ttl or 0)
end

function methods.ttl(self, key)
    local left = host.dict_ttl(self.name, tostring(key))
    if left == nil then
        return nil, "not found"
    end
    return left
end

function methods.expire(self, key, ttl)
    if host.dict_expire(self.name, tostring(key), ttl) then
        return true
    end
    return nil, "not found"
end

function methods.flush_all(self)
    host.dict_flush(self.name, true)
end

function methods.flush_expired(self)
    return host.dict_flush(self.name, false)
end

function methods.get_keys(self, most)
    return host.dict_keys(self.name, most or 1024)
end

function methods.capacity(self)
    return (host.dict_space(self.name))
end

function methods.free_space(self)
    local _, free = host.dict_space(self.name)
    return free
end

for _, how in ipairs({ "lpush", "rpush", "lpop", "rpop", "llen" }) do
    methods[how] = function(self, key, value)
        local name, why = key_of(key)
        if not name then
            return nil, why
        end
        return host.dict_list(self.name, how, name, value)
    end
end

local mt = { __index = methods }
ngx.shared = setmetatable({}, {
    __index = function(all, name)
        if type(name) ~= "string" or not host.dict_exists(name) then
            return nil
        end
        local dict = setmetatable({ name = name }, mt)
        all[name] = dict
        return dict
    end,
})
