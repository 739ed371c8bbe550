-- Coroutines of plugins, in which functions of the host wait too: what they yield to the host passes through.
local host = ...
local WAIT, EXIT, DONE = host.WAIT, host.EXIT, host.DONE
local co_create, co_resume, co_yield = coroutine.create, coroutine.resume, coroutine.yield
local co_status = coroutine.status
local error, type, select, unpack, pcall = error, type, select, unpack, pcall
local setmetatable = setmetatable

-- Runs functions in a coroutine that is used again.
function host.runner(f, ...)
    local function again(f, ...)
        return again(co_yield(DONE, f(...)))
    end
    return again(f, ...)
end

-- Runs a list of functions up to the first that answers.
function host.several(functions, a, b)
    for i = 1, #functions do
        local code, body = functions[i](a, b)
        if code or body then
            return code, body
        end
    end
end

-- Waits for what the host has noted, and returns what comes of it.
function host.wait(...)
    return co_yield(WAIT)
end

function host.leave()
    co_yield(EXIT)
    error("the phase is over", 0)
end

local forward
local function pass(co, ok, first, ...)
    if ok and (first == WAIT or first == EXIT) then
        return forward(co, first, ...)
    end
    return ok, first, ...
end

forward = function(co, mark)
    return pass(co, co_resume(co, co_yield(mark)))
end

function coroutine.resume(co, ...)
    return pass(co, co_resume(co, ...))
end

local function results(ok, ...)
    if not ok then
        error((...), 0)
    end
    return ...
end

function coroutine.wrap(f)
    local co = co_create(f)
    return function(...)
        return results(pass(co, co_resume(co, ...)))
    end
end

-- Light threads: coroutines that the host goes on with.
local ids = setmetatable({}, { __mode = "k" })
local ended = setmetatable({}, { __mode = "k" })

local function pack(...)
    return { n = select("#", ...), ... }
end

local thread = {}

local function begun(co, ok, first)
    if ok and first == EXIT then
        host.leave()
    end
    if co_status(co) ~= "dead" then
        ids[co] = host.thread_waits(co)
    end
    return co
end

function thread.spawn(f, ...)
    if type(f) ~= "function" then
        error("bad argument #1 to 'spawn' (function expected, got " .. type(f) .. ")", 2)
    end
    if not host.may_wait() then
        error("API disabled in the context of " .. host.phase(), 2)
    end
    local co
    co = co_create(function(...)
        ended[co] = pack(pcall(f, ...))
    end)
    return begun(co, co_resume(co, ...))
end

function thread.wait(...)
    local all = { ... }
    while true do
        local waiting = {}
        for i = 1, #all do
            local result = ended[all[i]]
            if result then
                return unpack(result, 1, result.n)
            end
            waiting[#waiting + 1] = ids[all[i]]
        end
        if #waiting == 0 then
            return nil, "already waited or killed"
        end
        host.thread_join(waiting)
        co_yield(WAIT)
    end
end

function thread.kill(co)
    if ended[co] or not ids[co] then
        return nil, "already terminated"
    end
    ended[co] = { n = 2, false, "killed" }
    host.thread_kill(ids[co])
    return true
end

host.light_threads = thread
