-- With the hook set, compiled loops leave at each turn, which takes six times as long as interpreting them.
jit.off()

-- Source text alone is loaded: bytecode could break out of the VM.
local load, type, error, tostring = load, type, error, tostring
local collectgarbage = collectgarbage
local package = package
local _G = _G

local function load_text(chunk, name, _, env)
    if type(chunk) == "function" then
        local parts = {}
        while true do
            local part = chunk()
            if part == nil or part == "" then
                break
            end
            if type(part) ~= "string" then
                return nil, "reader function must return a string"
            end
            parts[#parts + 1] = part
        end
        chunk = table.concat(parts)
    end
    if type(chunk) ~= "string" then
        error("bad argument #1 to 'load' (string expected, got " .. type(chunk) .. ")", 2)
    end
    return load(chunk, name or chunk, "t", env or _G)
end

_G.load = load_text

function _G.loadstring(chunk, name)
    return load_text(tostring(chunk), name)
end

-- The collector is the host's to stop and to set.
function _G.collectgarbage(what, arg)
    what = what or "collect"
    if what == "collect" or what == "count" or what == "step" then
        return collectgarbage(what, arg)
    end
    return 0
end

-- Modules are those of the libraries and of the generation's files.
local find = function()
    return nil
end
local loaded, preload = package.loaded, package.preload
local loading = {}

function _G.require(name)
    local known = loaded[name]
    if known ~= nil then
        return known
    end
    if loading[name] then
        error("loop or previous error loading module '" .. tostring(name) .. "'", 2)
    end
    local loader = preload[name] or find(name)
    if not loader then
        error("module '" .. tostring(name) .. "' not found", 2)
    end
    loading[name] = true
    local ok, made = pcall(loader, name)
    loading[name] = nil
    if not ok then
        error(made, 0)
    end
    if made ~= nil then
        loaded[name] = made
    elseif loaded[name] == nil then
        loaded[name] = true
    end
    return loaded[name]
end

return function(searcher)
    find = searcher
end
