-- `apisix.core`: the parts that the host has, and those of the libraries when they are asked for.
local host = ...
local ngx = ngx
local type, error, pairs, select, setmetatable, pcall = type, error, pairs, select, setmetatable, pcall
local tostring = tostring
local preload, loaded = package.preload, package.loaded

local levels = {
    stderr = ngx.STDERR, emerg = ngx.EMERG, alert = ngx.ALERT, crit = ngx.CRIT, error = ngx.ERR,
    warn = ngx.WARN, notice = ngx.NOTICE, info = ngx.INFO, debug = ngx.DEBUG,
}

local function logger(prefix)
    local log = {}
    for name, level in pairs(levels) do
        log[name] = function(...)
            if host.logs(level) then
                if prefix then
                    return ngx.log(level, prefix, ...)
                end
                return ngx.log(level, ...)
            end
        end
    end
    return log
end

preload["apisix.core.log"] = function()
    local log = logger()
    function log.new(prefix)
        return logger(prefix)
    end
    -- A value that is made only where the line is written.
    local delayed = {
        __tostring = function(self)
            return tostring(self.func(self.a, self.b, self.c))
        end,
    }
    function log.delay_exec(func, a, b, c)
        return setmetatable({ func = func, a = a, b = b, c = c }, delayed)
    end
    return log
end

preload["apisix.core.config_local"] = function()
    return {
        local_conf = function()
            return host.local_conf
        end,
        clear_cache = function()
        end,
    }
end

preload["apisix.core.config_etcd"] = function()
    return { type = "etcd" }
end
preload["apisix.core.config"] = preload["apisix.core.config_etcd"]

preload["apisix.core.timer"] = function()
    local timer = {}
    function timer.new(name, callback, opts)
        opts = opts or {}
        local each = opts.each_ttl or 1
        local function run()
            local ok, err = pcall(callback)
            if not ok then
                ngx.log(ngx.ERR, "failed to run timer ", name, ": ", err)
            end
        end
        if opts.check_interval == nil and each == 0 then
            return ngx.timer.at(0, run)
        end
        local ok, err = ngx.timer.every(opts.check_interval or each, run)
        if not ok then
            return nil, err
        end
        return { name = name }
    end
    return timer
end

preload["apisix.core.etcd"] = function()
    local function unavailable()
        return nil, "the store is not reached from plugins"
    end
    return setmetatable({}, {
        __index = function()
            return unavailable
        end,
    })
end

preload["apisix.core.event"] = function()
    local handlers = {}
    return {
        CONST = { BUILD_ROUTER = 1 },
        push = function(kind, ...)
            local handler = handlers[kind]
            if handler then
                handler(...)
            end
        end,
        register = function(kind, handler)
            handlers[kind] = handler
        end,
        unregister = function(kind)
            handlers[kind] = nil
        end,
    }
end

preload["apisix.core.profile"] = preload["apisix.core.profile"] or function()
    return {
        yaml_path = function(_, name)
            return "conf/" .. name .. ".yaml"
        end,
    }
end

local core = loaded["apisix.core"] or {}
local function part(name)
    local full = "apisix.core." .. name
    if loaded[full] == nil and not preload[full] then
        if name == "tablepool" and preload["tablepool"] then
            return require("tablepool")
        end
        return nil
    end
    return require(full)
end

loaded["apisix.core"] = setmetatable(core, {
    __index = function(t, name)
        local found
        if type(name) == "string" then
            found = part(name)
        end
        if found ~= nil then
            t[name] = found
        end
        return found
    end,
})

-- Plugins check patterns by it.
preload["resty.core.regex"] = preload["resty.core.regex"] or function()
    return {
        re_match_compile = function(pattern, options)
            local _, err = ngx.re.match("", pattern, options)
            if err then
                return nil, err
            end
            return {}
        end,
    }
end
