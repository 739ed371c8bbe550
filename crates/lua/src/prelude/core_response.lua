-- `apisix.core.response`
local host = ...
local ngx = ngx
local type, error, select, pairs, concat = type, error, select, pairs, table.concat
local tonumber, sub = tonumber, string.sub

local _M = {}
package.preload["apisix.core.response"] = function()
    return _M
end

local json
local function encode(value)
    json = json or require("cjson.safe")
    local text, err = json.encode(value)
    if not text then
        error("failed to encode data: " .. tostring(err), 3)
    end
    return text .. "\n"
end

-- A body as text: tables are JSON, with a line's end.
local function text_of(value)
    if type(value) == "table" then
        return encode(value)
    end
    return host.text(value)
end
host.body_text = text_of

local function hooked(callbacks, code, body)
    local headers = {}
    for i = 1, #callbacks, 2 do
        code, body, headers = callbacks[i](code, body, headers, callbacks[i + 1])
    end
    for name, value in pairs(headers or {}) do
        ngx.header[name] = value
    end
    return code, body
end

function _M.exit(code, ...)
    local parts, count = {}, 0
    if code ~= nil and type(code) ~= "number" then
        count = 1
        parts[1] = text_of(code)
        code = nil
    end
    local ctx = ngx.ctx
    local callbacks = ctx.apisix_exit_callback_funcs
    if callbacks then
        local body = parts[1]
        for i = 1, select("#", ...) do
            body = body or (select(i, ...))
        end
        code, body = hooked(callbacks, code, body)
        parts, count = {}, 0
        if body ~= nil then
            parts[1], count = text_of(body), 1
        end
    else
        for i = 1, select("#", ...) do
            local part = select(i, ...)
            if part ~= nil then
                count = count + 1
                parts[count] = text_of(part)
            end
        end
    end
    if code then
        ngx.status = code
    end
    if count > 0 then
        host.print(concat(parts))
    end
    if code then
        local api_ctx = ctx.api_ctx
        if api_ctx and not api_ctx._resp_source then
            api_ctx._resp_source = "apisix"
        end
        return ngx.exit(code)
    end
end

function _M.exit_insert_callback(func, conf)
    local callbacks = ngx.ctx.apisix_exit_callback_funcs or {}
    callbacks[#callbacks + 1] = func
    callbacks[#callbacks + 1] = conf
    ngx.ctx.apisix_exit_callback_funcs = callbacks
end

function _M.say(...)
    _M.exit(nil, ...)
end

local function each(set, ...)
    local count = select("#", ...)
    if count == 1 then
        local headers = ...
        if type(headers) ~= "table" then
            set(headers, nil)
            return
        end
        for name, value in pairs(headers) do
            set(name, value)
        end
        return
    end
    for i = 1, count, 2 do
        set((select(i, ...)), (select(i + 1, ...)))
    end
end

function _M.set_header(...)
    if select("#", ...) == 2 then
        return host.resp_set_header(...)
    end
    each(host.resp_set_header, ...)
end

function _M.add_header(...)
    each(host.resp_add_header, ...)
end

function _M.get_upstream_status(ctx)
    return tonumber(sub(ctx.var.upstream_status or "", -3))
end

function _M.set_response_source(ctx, source)
    if ctx then
        ctx._resp_source = source
    end
end

function _M.get_response_source(ctx)
    return ctx and ctx._resp_source or (host.var("upstream_status") and "upstream" or "apisix")
end

function _M.clear_header_as_body_modified()
    for _, name in ipairs({ "Content-Length", "Content-Encoding", "Last-Modified", "ETag" }) do
        host.resp_set_header(name, nil)
    end
end

-- Holds the pieces of a body back, and returns the whole once it is there.
function _M.hold_body_chunk(ctx, hold_the_copy, max_bytes, key)
    local arg = ngx.arg
    local chunk, eof = arg[1], arg[2]
    key = key or host.plugin_name()
    local held = ctx._body_buffer
    if not held then
        held = {}
        ctx._body_buffer = held
    end
    local buffer = held[key]
    if not buffer then
        buffer = { n = 0, bytes = 0 }
        held[key] = buffer
    end
    if buffer.done then
        return nil
    end
    if type(chunk) == "string" and chunk ~= "" then
        buffer.n = buffer.n + 1
        buffer[buffer.n] = chunk
        buffer.bytes = buffer.bytes + #chunk
    end
    if eof or (max_bytes and buffer.bytes >= max_bytes) then
        buffer.done = true
        local body = concat(buffer, "", 1, buffer.n)
        for i = 1, buffer.n do
            buffer[i] = nil
        end
        if max_bytes and #body > max_bytes then
            body = sub(body, 1, max_bytes)
        end
        return body
    end
    if not hold_the_copy then
        arg[1] = nil
    end
    return nil
end
