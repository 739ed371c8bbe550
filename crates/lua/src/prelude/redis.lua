-- `ngx.socket.tcp` over the gateway's connections, and `resty.redis` over that.
local host = ...
local ngx = ngx
local type, tostring, tonumber, setmetatable, select, ipairs = type, tostring, tonumber, setmetatable, select, ipairs
local concat, sub = table.concat, string.sub

local socket = {}
local socket_meta = { __index = socket }

ngx.socket = ngx.socket or {}
function ngx.socket.tcp()
    return setmetatable({ connect_time = 60, send_time = 60, read_time = 60 }, socket_meta)
end
ngx.socket.stream = ngx.socket.tcp
function ngx.socket.connect(...)
    local made = ngx.socket.tcp()
    local ok, err = made:connect(...)
    if not ok then
        return nil, err
    end
    return made
end

function socket.settimeout(self, ms)
    self.connect_time, self.send_time, self.read_time = ms / 1000, ms / 1000, ms / 1000
end

function socket.settimeouts(self, connect, send, read)
    self.connect_time = (connect or 60000) / 1000
    self.send_time, self.read_time = (send or 60000) / 1000, (read or 60000) / 1000
end

local function pool_of(name, port, options)
    return options and options.pool or (name .. ":" .. tostring(port))
end

function socket.connect(self, name, port, options)
    if type(port) == "table" then
        options, port = port, 0
    end
    self.pool = pool_of(name, port, options)
    self.target = { name, port or 0 }
    self.inner = host.kept_socket(self.pool)
    if self.inner then
        return 1
    end
    if options and options.ssl then
        return self:open(true, options.ssl_verify)
    end
    return self:open(false, false)
end

function socket.open(self, tls, verify)
    host.connect(self.target[1], self.target[2], self.connect_time, tls, verify ~= false)
    local inner, err = host.wait()
    if not inner then
        return nil, err
    end
    self.inner = inner
    return 1
end

-- TLS is part of connecting: the connection is made again, encrypted.
function socket.sslhandshake(self, _, _, verify)
    if not self.inner then
        return nil, "closed"
    end
    if self.inner:reused() > 0 then
        return true
    end
    self.inner:close()
    self.pool = self.pool .. "#tls"
    local ok, err = self:open(true, verify)
    if not ok then
        return nil, err
    end
    return true
end

function socket.send(self, data)
    if not self.inner then
        return nil, "closed"
    end
    self.inner:send(host.text(data), self.send_time)
    return host.wait()
end

function socket.receive(self, what)
    if not self.inner then
        return nil, "closed"
    end
    if type(what) == "number" then
        self.inner:exactly(what, self.read_time)
    elseif what == "*a" then
        self.inner:all(self.read_time)
    else
        self.inner:line(self.read_time)
    end
    return host.wait()
end

function socket.close(self)
    if not self.inner or not self.inner:close() then
        return nil, "closed"
    end
    self.inner = nil
    return 1
end

function socket.setkeepalive(self)
    if not self.inner or not self.inner:keep(self.pool) then
        return nil, "closed"
    end
    self.inner = nil
    return 1
end

function socket.getreusedtimes(self)
    if not self.inner then
        return nil, "closed"
    end
    return self.inner:reused()
end

function socket.setoption()
    return true
end

local redis = { _VERSION = "0.30" }
local redis_meta
package.preload["resty.redis"] = function()
    return redis
end

function redis.new()
    return setmetatable({ sock = ngx.socket.tcp() }, redis_meta)
end

function redis.set_timeout(self, ms)
    return self.sock:settimeout(ms)
end

function redis.set_timeouts(self, ...)
    return self.sock:settimeouts(...)
end

function redis.connect(self, name, port, options)
    if type(port) == "table" then
        options, port = port, nil
    end
    local ok, err = self.sock:connect(name, port, options)
    if not ok then
        return nil, err
    end
    self.subscribed = false
    return ok
end

function redis.set_keepalive(self, ...)
    return self.sock:setkeepalive(...)
end

function redis.get_reused_times(self)
    return self.sock:getreusedtimes()
end

function redis.close(self)
    return self.sock:close()
end

local function read(sock)
    local line, err = sock:receive()
    if not line then
        return nil, err
    end
    local kind, rest = sub(line, 1, 1), sub(line, 2)
    if kind == "$" then
        local size = tonumber(rest)
        if size < 0 then
            return ngx.null
        end
        local data, failed = sock:receive(size + 2)
        if not data then
            return nil, failed
        end
        return sub(data, 1, size)
    elseif kind == "+" then
        return rest
    elseif kind == ":" then
        return tonumber(rest)
    elseif kind == "*" then
        local count = tonumber(rest)
        if count < 0 then
            return ngx.null
        end
        local items = {}
        for i = 1, count do
            local item, failed = read(sock)
            if item == nil then
                return nil, failed
            elseif item == false then
                item = { false, failed }
            end
            items[i] = item
        end
        return items
    elseif kind == "-" then
        return false, rest
    end
    return nil, "unknown prefix: \"" .. tostring(kind) .. "\""
end

local function request(...)
    local count = select("#", ...)
    local parts = { "*" .. count .. "\r\n" }
    for i = 1, count do
        local arg = tostring((select(i, ...)))
        parts[#parts + 1] = "$" .. #arg .. "\r\n" .. arg .. "\r\n"
    end
    return concat(parts)
end

local function command(self, ...)
    local text = request(...)
    if self.pipeline then
        self.pipeline[#self.pipeline + 1] = text
        return
    end
    local sent, err = self.sock:send(text)
    if not sent then
        return nil, err
    end
    return read(self.sock)
end

function redis.init_pipeline(self)
    self.pipeline = {}
end

function redis.cancel_pipeline(self)
    self.pipeline = nil
end

function redis.commit_pipeline(self)
    local pipeline = self.pipeline
    if not pipeline then
        return nil, "no pipeline"
    end
    self.pipeline = nil
    local sent, err = self.sock:send(concat(pipeline))
    if not sent then
        return nil, err
    end
    local answers = {}
    for i = 1, #pipeline do
        local answer, failed = read(self.sock)
        if answer == nil then
            return nil, failed
        elseif answer == false then
            answer = { false, failed }
        end
        answers[i] = answer
    end
    return answers
end

function redis.hmset(self, key, ...)
    if select("#", ...) == 1 and type((...)) == "table" then
        local args = {}
        for name, value in pairs((...)) do
            args[#args + 1] = name
            args[#args + 1] = value
        end
        return command(self, "hmset", key, unpack(args))
    end
    return command(self, "hmset", key, ...)
end

function redis.array_to_hash(_, list)
    local hash = {}
    for i = 1, #list, 2 do
        hash[list[i]] = list[i + 1]
    end
    return hash
end

-- Every other name is a command.
redis_meta = {
    __index = function(_, name)
        local known = redis[name]
        if known then
            return known
        end
        local function run(self, ...)
            return command(self, name, ...)
        end
        redis[name] = run
        return run
    end,
}
