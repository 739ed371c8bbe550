-- `resty.http` over the gateway's connections: a response is there as a whole.
local host = ...
local type, tostring, tonumber, pairs, ipairs, setmetatable = type, tostring, tonumber, pairs, ipairs, setmetatable
local rawget, pcall = rawget, pcall

local http = { _VERSION = "0.17.2", _USER_AGENT = "Tidegate" }
package.preload["resty.http"] = function()
    return http
end

local methods = {}
local meta = { __index = methods }

function http.new()
    return setmetatable({ timeouts = {} }, meta)
end

function methods.set_timeout(self, ms)
    self.timeouts = { connect = ms, send = ms, read = ms }
end

function methods.set_timeouts(self, connect, send, read)
    self.timeouts = { connect = connect, send = send, read = read }
end

function methods.set_proxy_options()
end

function methods.parse_uri(_, uri, query_in_path)
    local scheme, authority, rest = uri:match("^([hH][tT][tT][pP][sS]?)://([^/?#]+)([^#]*)")
    if not scheme then
        return nil, "bad uri: " .. tostring(uri)
    end
    scheme = scheme:lower()
    local name, port = authority:match("^(%[[^%]]+%]):?(%d*)$")
    if not name then
        name, port = authority:match("^([^:]+):?(%d*)$")
    end
    if not name then
        return nil, "bad uri: " .. tostring(uri)
    end
    port = tonumber(port) or (scheme == "https" and 443 or 80)
    local path, query = rest:match("^([^?]*)%??(.*)$")
    if path == "" then
        path = "/"
    end
    if query_in_path == false then
        return { scheme, name, port, path, query }
    end
    if query ~= "" then
        path = path .. "?" .. query
    end
    return { scheme, name, port, path, "" }
end

local function fields_of(headers, user_agent)
    local fields, authority, named = {}, nil, false
    for name, value in pairs(headers or {}) do
        local lower = tostring(name):lower()
        if lower == "host" then
            authority = tostring(value)
        elseif lower ~= "content-length" and lower ~= "transfer-encoding" and lower ~= "connection"
            and lower ~= "keep-alive" and lower ~= "upgrade" and lower ~= "te" then
            named = named or lower == "user-agent"
            if type(value) == "table" then
                for _, item in ipairs(value) do
                    fields[#fields + 1] = { tostring(name), tostring(item) }
                end
            else
                fields[#fields + 1] = { tostring(name), tostring(value) }
            end
        end
    end
    if not named then
        fields[#fields + 1] = { "User-Agent", user_agent }
    end
    return fields, authority
end

local header_meta = {
    __index = function(headers, name)
        if type(name) ~= "string" then
            return nil
        end
        local lower = name:lower():gsub("_", "-")
        for known, value in pairs(headers) do
            if known:lower() == lower then
                return value
            end
        end
    end,
}

local reasons = {
    [200] = "OK", [201] = "Created", [202] = "Accepted", [204] = "No Content", [301] = "Moved Permanently",
    [302] = "Found", [304] = "Not Modified", [400] = "Bad Request", [401] = "Unauthorized", [403] = "Forbidden",
    [404] = "Not Found", [429] = "Too Many Requests", [500] = "Internal Server Error", [502] = "Bad Gateway",
    [503] = "Service Unavailable", [504] = "Gateway Timeout",
}

local function body_text(body)
    if type(body) == "function" then
        local parts = {}
        while true do
            local part = body()
            if not part then
                break
            end
            parts[#parts + 1] = part
        end
        return table.concat(parts)
    elseif type(body) == "table" then
        return table.concat(body)
    end
    return body ~= nil and tostring(body) or nil
end

local function send(self, server, params)
    local fields, authority = fields_of(params.headers, http._USER_AGENT)
    local path = params.path or "/"
    local query = params.query
    if type(query) == "table" then
        query = host.encode_args(query)
    end
    if query and query ~= "" then
        path = path .. (query:sub(1, 1) == "?" and "" or "?") .. query
    end
    local timeouts = self.timeouts
    local ok, err = pcall(host.http_call, {
        scheme = server.scheme, host = server.host, port = server.port, ssl_verify = server.ssl_verify,
        authority = authority, method = params.method or "GET", target = path, fields = fields,
        body = body_text(params.body), connect_timeout = timeouts.connect, send_timeout = timeouts.send,
        read_timeout = timeouts.read,
    })
    if not ok then
        return nil, tostring(err)
    end
    local status, received, body = host.wait()
    if not status then
        return nil, received
    end
    local headers = setmetatable({}, header_meta)
    for _, field in ipairs(received) do
        local name, value = field[1], field[2]
        local known = rawget(headers, name)
        if known == nil then
            headers[name] = value
        elseif type(known) == "table" then
            known[#known + 1] = value
        else
            headers[name] = { known, value }
        end
    end
    local read = false
    local response = {
        status = status, reason = reasons[status] or "", headers = headers, has_body = body ~= "", version = 1.1,
        trailer_reader = nil,
    }
    function response.body_reader()
        if read or body == "" then
            return nil
        end
        read = true
        return body
    end
    function response.read_body()
        if read then
            return ""
        end
        read = true
        return body
    end
    function response.read_trailers()
    end
    return response
end

function methods.request_uri(self, uri, params)
    params = params or {}
    local parsed, err = methods.parse_uri(self, uri, false)
    if not parsed then
        return nil, err
    end
    local server = { scheme = parsed[1], host = parsed[2], port = parsed[3], ssl_verify = params.ssl_verify }
    local request = {
        method = params.method, headers = params.headers, body = params.body,
        path = params.path or parsed[4], query = params.query or parsed[5],
    }
    local response, failed = send(self, server, request)
    if not response then
        return nil, failed
    end
    response.body = response.read_body()
    response.body_reader, response.read_trailers = nil, nil
    return response
end

function methods.connect(self, options, port)
    if type(options) ~= "table" then
        options = { host = options, port = port }
    end
    if type(options.host) ~= "string" then
        return nil, "a host is needed"
    end
    local scheme = options.scheme or "http"
    self.server = {
        scheme = scheme, host = options.host, port = options.port or (scheme == "https" and 443 or 80),
        ssl_verify = options.ssl_verify,
    }
    return true
end

function methods.ssl_handshake(self, _, _, verify)
    if not self.server then
        return nil, "not connected"
    end
    self.server.scheme, self.server.ssl_verify = "https", verify
    return true
end

function methods.request(self, params)
    if not self.server then
        return nil, "not initialized"
    end
    return send(self, self.server, params)
end

function methods.set_keepalive()
    return 1
end

function methods.get_reused_times()
    return 0
end

function methods.close()
    return 1
end
