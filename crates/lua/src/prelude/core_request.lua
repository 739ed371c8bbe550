-- `apisix.core.request`
local host = ...
local ngx = ngx
local type, error, tonumber, setmetatable = type, error, tonumber, setmetatable

local _M = {}
package.preload["apisix.core.request"] = function()
    return _M
end

local function context(ctx)
    return ctx or ngx.ctx.api_ctx
end

function _M.headers(ctx)
    ctx = context(ctx)
    local headers = ctx.headers
    if not headers then
        headers = setmetatable(host.req_headers(), host.insensitive)
        ctx.headers = headers
    end
    return headers
end

function _M.header(_, name)
    if type(name) ~= "string" then
        return nil
    end
    local value = host.req_header(name)
    if value == nil and name:find("_", 1, true) then
        value = host.req_header((name:gsub("_", "-")))
    end
    return value
end

local function modify(ctx, name, value, set)
    if type(ctx) == "string" then
        ctx, name, value = nil, ctx, name
    end
    if type(name) ~= "string" then
        error(("invalid header name %q: got %s, expected string"):format(tostring(name), type(name)))
    end
    set(name, value)
    ctx = ctx or ngx.ctx.api_ctx
    if ctx then
        ctx.headers = nil
        if ctx.var then
            ctx.var["http_" .. name:lower():gsub("-", "_")] = nil
        end
    end
end

function _M.set_header(ctx, name, value)
    modify(ctx, name, value, host.req_set_header)
end

function _M.add_header(ctx, name, value)
    modify(ctx, name, value, host.req_add_header)
end

function _M.get_ip(ctx)
    ctx = context(ctx)
    return ctx.var.remote_addr or ""
end

_M.get_remote_client_ip = _M.get_ip

function _M.get_remote_client_port(ctx)
    return tonumber(context(ctx).var.remote_port)
end

function _M.get_uri_args(ctx)
    ctx = context(ctx)
    if not ctx.req_uri_args then
        ctx.req_uri_args = ngx.req.get_uri_args(0)
    end
    return ctx.req_uri_args
end

function _M.set_uri_args(ctx, args)
    context(ctx).req_uri_args = nil
    return ngx.req.set_uri_args(args)
end

function _M.get_post_args(ctx)
    ctx = context(ctx)
    if not ctx.req_post_args then
        ctx.req_post_args = host.decode_args(host.body() or "", 0)
    end
    return ctx.req_post_args
end

local function too_large(size, most)
    return "request size " .. size .. " is greater than the maximum size " .. most .. " allowed"
end

function _M.get_body(max_size)
    local length = tonumber(host.req_header("content-length"))
    if max_size and length and length > max_size then
        return nil, too_large(length, max_size)
    end
    local body, why = host.body()
    if body == nil then
        return nil, why
    end
    if body == "" then
        return nil
    end
    if max_size and #body > max_size then
        return nil, too_large(#body, max_size)
    end
    return body
end

function _M.get_json_request_body_table(max_size)
    local body, why = _M.get_body(max_size)
    if not body then
        return nil, { message = "could not get body: " .. (why or "request body is empty") }
    end
    local decoded, err = require("apisix.core.json").decode(body)
    if not decoded then
        return nil, { message = "could not parse JSON request body: " .. (err or "invalid JSON") }
    end
    return decoded
end

function _M.get_request_body_table(ctx, content_type, max_size)
    content_type = content_type or _M.header(ctx, "Content-Type") or "application/json"
    if content_type:find("application/json", 1, true) == 1 then
        local body, why = _M.get_json_request_body_table(max_size)
        if not body then
            return nil, why.message
        end
        return body
    elseif content_type:find("application/x-www-form-urlencoded", 1, true) == 1 then
        return _M.get_post_args(ctx)
    end
    return nil, "unsupported content-type: " .. content_type
end

function _M.get_scheme(ctx)
    return context(ctx).var.scheme or ""
end

function _M.get_host(ctx)
    return context(ctx).var.host or ""
end

function _M.get_port(ctx)
    return tonumber(context(ctx).var.server_port)
end

_M.get_http_version = host.req_version
_M.get_method = host.req_method
_M.get_path = function(ctx)
    return context(ctx).var.uri or ""
end
