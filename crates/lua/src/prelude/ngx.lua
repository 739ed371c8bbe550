-- The global `ngx`: constants, the response, time.
local host = ...
local type, error, tostring, select, rawset, rawget = type, error, tostring, select, rawset, rawget
local setmetatable, pairs, concat = setmetatable, pairs, table.concat
local package = package

local ngx = rawget(_G, "ngx") or {}
_G.ngx = ngx

local constants = {
    OK = 0, ERROR = -1, AGAIN = -2, DONE = -4, DECLINED = -5,
    STDERR = 0, EMERG = 1, ALERT = 2, CRIT = 3, ERR = 4, WARN = 5, NOTICE = 6, INFO = 7, DEBUG = 8,
    HTTP_GET = 2, HTTP_HEAD = 4, HTTP_POST = 8, HTTP_PUT = 16, HTTP_DELETE = 32, HTTP_MKCOL = 64,
    HTTP_COPY = 128, HTTP_MOVE = 256, HTTP_OPTIONS = 512, HTTP_PROPFIND = 1024, HTTP_PROPPATCH = 2048,
    HTTP_LOCK = 4096, HTTP_UNLOCK = 8192, HTTP_PATCH = 16384, HTTP_TRACE = 32768,
    HTTP_CONTINUE = 100, HTTP_SWITCHING_PROTOCOLS = 101, HTTP_OK = 200, HTTP_CREATED = 201,
    HTTP_ACCEPTED = 202, HTTP_NO_CONTENT = 204, HTTP_PARTIAL_CONTENT = 206, HTTP_SPECIAL_RESPONSE = 300,
    HTTP_MOVED_PERMANENTLY = 301, HTTP_MOVED_TEMPORARILY = 302, HTTP_SEE_OTHER = 303,
    HTTP_NOT_MODIFIED = 304, HTTP_TEMPORARY_REDIRECT = 307, HTTP_PERMANENT_REDIRECT = 308,
    HTTP_BAD_REQUEST = 400, HTTP_UNAUTHORIZED = 401, HTTP_PAYMENT_REQUIRED = 402, HTTP_FORBIDDEN = 403,
    HTTP_NOT_FOUND = 404, HTTP_NOT_ALLOWED = 405, HTTP_NOT_ACCEPTABLE = 406, HTTP_REQUEST_TIMEOUT = 408,
    HTTP_CONFLICT = 409, HTTP_GONE = 410, HTTP_UPGRADE_REQUIRED = 426, HTTP_TOO_MANY_REQUESTS = 429,
    HTTP_CLOSE = 444, HTTP_ILLEGAL = 451, HTTP_INTERNAL_SERVER_ERROR = 500,
    HTTP_METHOD_NOT_IMPLEMENTED = 501, HTTP_BAD_GATEWAY = 502, HTTP_SERVICE_UNAVAILABLE = 503,
    HTTP_GATEWAY_TIMEOUT = 504, HTTP_VERSION_NOT_SUPPORTED = 505, HTTP_INSUFFICIENT_STORAGE = 507,
}
for name, value in pairs(constants) do
    rawset(ngx, name, value)
end
ngx.null = host.NULL

local function flat(out, value)
    local kind = type(value)
    if kind == "table" then
        for i = 1, #value do
            flat(out, value[i])
        end
    elseif kind == "string" then
        out[#out + 1] = value
    elseif value == host.NULL then
        out[#out + 1] = "null"
    elseif kind == "number" or kind == "boolean" or kind == "nil" then
        out[#out + 1] = tostring(value)
    else
        error("bad argument (string, number, boolean, nil, ngx.null, or array table expected, got " .. kind .. ")", 3)
    end
end

local function text(...)
    local count = select("#", ...)
    if count == 1 and type((...)) == "string" then
        return (...)
    end
    local out = {}
    for i = 1, count do
        flat(out, (select(i, ...)))
    end
    return concat(out)
end
host.text = text

function ngx.print(...)
    host.print(text(...))
    return 1
end

function ngx.say(...)
    host.print(text(...))
    host.print("\n")
    return 1
end

function ngx.flush()
    return 1
end

function ngx.eof()
    return 1
end

function ngx.send_headers()
    return 1
end

function ngx.exit(code)
    host.exit(code)
    return host.leave()
end

function ngx.redirect(uri, status)
    status = status or 302
    if status ~= 301 and status ~= 302 and status ~= 303 and status ~= 307 and status ~= 308 then
        error("only ngx.HTTP_MOVED_TEMPORARILY, ngx.HTTP_MOVED_PERMANENTLY, ngx.HTTP_PERMANENT_REDIRECT, "
            .. "ngx.HTTP_SEE_OTHER, and ngx.HTTP_TEMPORARY_REDIRECT are allowed", 2)
    end
    host.resp_set_header("Location", uri)
    return ngx.exit(status)
end

function ngx.exec()
    error("ngx.exec is not available: there are no locations", 2)
end

ngx.location = setmetatable({}, {
    __index = function(_, name)
        error("ngx.location." .. tostring(name) .. " is not available: there are no locations", 2)
    end,
})

function ngx.log(level, ...)
    if not host.logs(level) then
        return
    end
    local parts = {}
    for i = 1, select("#", ...) do
        local part = select(i, ...)
        if part == nil then
            part = "nil"
        end
        parts[i] = tostring(part)
    end
    host.log(level, concat(parts))
end

function print(...)
    return ngx.log(6, ...)
end

ngx.get_phase = host.phase
ngx.arg = ngx.arg or {}

ngx.var = setmetatable({}, {
    __index = function(_, name)
        return host.var(tostring(name))
    end,
    __newindex = function(_, name, value)
        host.set_var(name, value)
    end,
})

local function underscored(name)
    return (name:gsub("_", "-"))
end

ngx.header = setmetatable({}, {
    __index = function(_, name)
        local value = host.resp_header(name)
        if value == nil and name:find("_", 1, true) then
            value = host.resp_header(underscored(name))
        end
        return value
    end,
    __newindex = function(_, name, value)
        host.resp_set_header(underscored(name), value)
    end,
})

local resp = ngx.resp or {}
ngx.resp = resp

local insensitive = {
    __index = function(headers, name)
        if type(name) ~= "string" then
            return nil
        end
        return rawget(headers, (name:lower():gsub("_", "-")))
    end,
}
host.insensitive = insensitive

function resp.get_headers(_, raw)
    local headers = host.resp_headers()
    if raw then
        return headers
    end
    return setmetatable(headers, insensitive)
end

function resp.add_header(name, value)
    host.resp_add_header(name, value)
end

local meta = getmetatable(ngx) or {}
local before = meta.__index
function meta.__index(t, name)
    if name == "ctx" then
        return host.ngx_ctx() or {}
    elseif name == "status" then
        return host.status()
    elseif name == "headers_sent" then
        local phase = host.phase()
        return phase == "body_filter" or phase == "log"
    elseif name == "is_subrequest" then
        return false
    end
    if type(before) == "function" then
        return before(t, name)
    end
    return before and before[name]
end

function meta.__newindex(t, name, value)
    if name == "status" then
        host.set_status(value)
    elseif name == "ctx" then
        local ctx = host.ngx_ctx()
        for key in pairs(ctx) do
            ctx[key] = nil
        end
        for key, member in pairs(value) do
            ctx[key] = member
        end
    else
        rawset(t, name, value)
    end
end
rawset(ngx, "ctx", nil)
rawset(ngx, "status", nil)
rawset(ngx, "headers_sent", nil)
setmetatable(ngx, meta)

function ngx.sleep(seconds)
    host.sleep(seconds)
    return host.wait()
end

local timer = {}
ngx.timer = timer
function timer.at(delay, f, ...)
    return host.timer(delay, false, f, ...)
end
function timer.every(delay, f, ...)
    return host.timer(delay, true, f, ...)
end
function timer.running_count()
    return 0
end
function timer.pending_count()
    return 0
end

ngx.thread = host.light_threads

ngx.worker = ngx.worker or {}
function ngx.worker.exiting()
    return false
end
function ngx.worker.pid()
    return tonumber(host.var("pid")) or 0
end
ngx.worker.id = ngx.worker.id or function()
    return 0
end
ngx.worker.count = ngx.worker.count or function()
    return 1
end

ngx.config = ngx.config or {}
ngx.config.subsystem = "http"
ngx.config.debug = false
ngx.config.ngx_lua_version = 10028
ngx.config.nginx_version = 1027001
function ngx.config.prefix()
    return "./"
end
function ngx.config.nginx_configure()
    return ""
end

-- Modules of OpenResty that are parts of `ngx`.
local loaded = package.loaded
loaded["ngx"] = ngx
loaded["ngx.resp"] = resp
loaded["ngx.process"] = {
    type = function()
        return "worker"
    end,
    get_master_pid = function()
        return nil
    end,
}
loaded["ngx.errlog"] = {
    raw_log = function(level, message)
        return ngx.log(level, message)
    end,
    get_sys_filter_level = function()
        for level = 8, 1, -1 do
            if host.logs(level) then
                return level
            end
        end
        return 1
    end,
}
local semaphore = {}
loaded["ngx.semaphore"] = semaphore
semaphore.version = "0.1"
function semaphore.new(resources)
    local inner = host.semaphore(resources)
    return {
        post = function(_, count)
            return inner:post(count)
        end,
        count = function()
            return inner:count()
        end,
        wait = function(_, seconds)
            local taken = inner:try_wait(seconds)
            if taken == nil then
                taken = host.wait()
            end
            if taken then
                return true
            end
            return nil, "timeout"
        end,
    }
end
