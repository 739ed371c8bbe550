-- `apisix.core.ctx`, and the context that plugins' functions get.
local host = ...
local ngx = ngx
local type, error, rawget, rawset, setmetatable, sub = type, error, rawget, rawset, setmetatable, string.sub

local _M = {}
package.preload["apisix.core.ctx"] = function()
    return _M
end

local registered = {}

-- What may be said once and stays, and what another plugin may have changed.
local changing = {
    args = true, is_args = true, status = true, upstream_status = true, bytes_sent = true, request_time = true,
    upstream_response_time = true, body_bytes_sent = true, upstream_uri = true, upstream_host = true,
    consumer_name = true, consumer_group_id = true, request_uri = true, uri = true,
}

-- The variables that nginx acts upon.
local settable = {
    upstream_scheme = true, upstream_host = true, upstream_upgrade = true, upstream_connection = true,
    upstream_uri = true, upstream_mirror_host = true, upstream_mirror_uri = true, upstream_cache_zone = true,
    upstream_cache_zone_info = true, upstream_no_cache = true, upstream_cache_key = true,
    upstream_cache_bypass = true, rate_limiting_info = true, llm_model = true, request_llm_model = true,
    llm_prompt_tokens = true, llm_completion_tokens = true, request_type = true,
}

local var_meta = {}

function var_meta.__index(t, key)
    local cache = rawget(t, "_cache")
    local known = cache[key]
    if known ~= nil then
        return known
    end
    if type(key) ~= "string" then
        error("invalid argument, expect string value", 2)
    end
    local value
    local getter = registered[key]
    if getter then
        value = getter.get(rawget(t, "_ctx"))
        if not getter.cacheable then
            return value
        end
    elseif key == "method" then
        value = host.req_method()
    elseif sub(key, 1, 10) == "uri_param_" then
        value = host.var(key)
    elseif sub(key, 1, 9) == "post_arg_" then
        local args = require("apisix.core.request").get_post_args(rawget(t, "_ctx"))
        value = args[sub(key, 10)]
        if type(value) == "table" then
            value = value[1]
        end
    elseif sub(key, 1, 9) == "post_arg." then
        local body = require("apisix.core.request").get_request_body_table(rawget(t, "_ctx"))
        value = body
        for part in sub(key, 10):gmatch("[^.]+") do
            if type(value) ~= "table" then
                value = nil
                break
            end
            value = value[part]
        end
    else
        value = host.var(key)
        if changing[key] then
            return value
        end
    end
    if value ~= nil then
        cache[key] = value
    end
    return value
end

function var_meta.__newindex(t, key, value)
    if settable[key] then
        host.set_var(key, value)
        if changing[key] then
            return
        end
    end
    rawget(t, "_cache")[key] = value
end

-- What a context knows besides what plugins put into it.
local derived = {
    matched_route = true, matched_service = true, route_id = true, route_name = true, service_id = true,
    service_name = true, conf_id = true, conf_type = true, conf_version = true, consumer = true,
    consumer_name = true, consumer_group_id = true, consumer_ver = true,
}
local fresh = { consumer = true, consumer_name = true, consumer_group_id = true, consumer_ver = true }

local function matched(ctx)
    local found = { _path = host.known("matched_path"), _host = host.known("matched_host"), _method = host.req_method() }
    return setmetatable(found, {
        __index = function(_, name)
            if type(name) ~= "string" or sub(name, 1, 1) == "_" then
                return nil
            end
            return host.var("uri_param_" .. name)
        end,
    })
end

local ctx_meta = {}

function ctx_meta.__index(ctx, key)
    if derived[key] then
        local value = host.known(key)
        if value ~= nil and not fresh[key] then
            rawset(ctx, key, value)
        end
        return value
    elseif key == "curr_req_matched" then
        local value = matched(ctx)
        rawset(ctx, key, value)
        return value
    elseif key == "_plugin_name" then
        return host.plugin_name()
    end
end

function host.make_ctx()
    local ctx = {}
    ctx.var = setmetatable({ _cache = {}, _ctx = ctx }, var_meta)
    setmetatable(ctx, ctx_meta)
    return ctx, { api_ctx = ctx }
end

function _M.set_vars_meta(ctx)
    ctx.var = setmetatable({ _cache = {}, _ctx = ctx }, var_meta)
end

function _M.release_vars()
end

function _M.register_var(name, getter, opts)
    if type(getter) ~= "function" then
        error("the getter of registered var should be a function")
    end
    registered[name] = { get = getter, cacheable = not (opts and opts.no_cacheable) }
end
