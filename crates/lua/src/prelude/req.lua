-- `ngx.req`: the request.
local host = ...
local ngx = ngx
local type, error, tostring, pairs, setmetatable = type, error, tostring, pairs, setmetatable
local concat, sort = table.concat, table.sort

local req = ngx.req or {}
ngx.req = req
package.loaded["ngx.req"] = req

local hex = {}
for i = 0, 255 do
    hex[string.char(i)] = ("%%%02X"):format(i)
end

local function escape(text)
    return (tostring(text):gsub("[^%w%-%._~]", hex))
end

local function unescape(text)
    text = text:gsub("+", " ")
    return (text:gsub("%%(%x%x)", function(digits)
        return string.char(tonumber(digits, 16))
    end))
end

local function add(args, name, value)
    local known = args[name]
    if known == nil then
        args[name] = value
    elseif type(known) == "table" then
        known[#known + 1] = value
    else
        args[name] = { known, value }
    end
end

-- Arguments of a query or a form; at most `most` of them, 100 where it isn't said, 0 for all.
local function decode_args(query, most)
    local args, count = {}, 0
    most = most or 100
    for pair in query:gmatch("[^&]+") do
        if most > 0 and count >= most then
            return args, "truncated"
        end
        count = count + 1
        local name, value = pair:match("^([^=]*)=(.*)$")
        if name == nil then
            add(args, unescape(pair), true)
        elseif name ~= "" then
            add(args, unescape(name), unescape(value))
        end
    end
    return args
end

local function encode_args(args)
    local out = {}
    local function put(name, value)
        if value == true then
            out[#out + 1] = escape(name)
        elseif type(value) == "table" then
            for i = 1, #value do
                put(name, value[i])
            end
        elseif value ~= false and value ~= nil then
            out[#out + 1] = escape(name) .. "=" .. escape(value)
        end
    end
    local names = {}
    for name in pairs(args) do
        names[#names + 1] = name
    end
    sort(names, function(a, b)
        return tostring(a) < tostring(b)
    end)
    for i = 1, #names do
        put(names[i], args[names[i]])
    end
    return concat(out, "&")
end
host.decode_args, host.encode_args = decode_args, encode_args
ngx.encode_args = ngx.encode_args or encode_args
ngx.decode_args = ngx.decode_args or decode_args

function req.get_headers(_, raw)
    local headers = host.req_headers()
    if raw then
        return headers
    end
    return setmetatable(headers, host.insensitive)
end

req.set_header = host.req_set_header
function req.clear_header(name)
    host.req_set_header(name, nil)
end

req.get_method = host.req_method
local names = {}
for name, value in pairs(ngx) do
    local method = type(name) == "string" and name:match("^HTTP_(%u+)$")
    if method and value < 100000 and (value >= 512 or value < 100 or value == 128 or value == 256) then
        names[value] = names[value] or method
    end
end
names[2], names[4], names[8], names[16], names[32] = "GET", "HEAD", "POST", "PUT", "DELETE"
names[512], names[16384], names[32768] = "OPTIONS", "PATCH", "TRACE"
function req.set_method(method)
    local name = names[method]
    if not name then
        error("unsupported HTTP method: " .. tostring(method), 2)
    end
    host.req_set_method(name)
end

function req.http_version()
    return host.req_version()
end

req.raw_header = host.req_raw_header
function req.start_time()
    return host.now_ms() / 1000 - host.req_age()
end
function req.is_internal()
    return false
end

function req.get_uri_args(most)
    return decode_args(host.var("args") or "", most)
end

function req.set_uri_args(args)
    if type(args) == "table" then
        args = encode_args(args)
    end
    host.req_set_args(tostring(args))
end

function req.set_uri(uri)
    host.req_set_uri(uri)
end

-- The body, or why there is none. Reading it waits for the client.
local function body(limit)
    local data, why = host.req_body(limit)
    if data == nil and why == "unread" and host.may_wait() then
        host.wait_body(limit)
        host.wait()
        data, why = host.req_body(limit)
    end
    return data, why
end
host.body = body

function req.read_body()
    body()
end

function req.discard_body()
end

function req.get_body_data(limit)
    local data = host.req_body(limit)
    if data == "" then
        return nil
    end
    return data
end

function req.get_body_file()
    return nil
end

function req.set_body_data(data)
    body()
    host.req_set_body(data)
end

function req.get_post_args(most)
    local data = host.req_body()
    return decode_args(data or "", most)
end

function req.socket()
    return nil, "request sockets are not available"
end
