-- `apisix.plugin`, `apisix.consumer`, `apisix.upstream` and what else plugins require of APISIX.
local host = ...
local ngx = ngx
local type, error, pairs, ipairs, setmetatable, tostring = type, error, pairs, ipairs, setmetatable, tostring
local preload = package.preload

preload["apisix.plugin"] = function()
    local plugin = {}
    function plugin.plugin_attr(name)
        return host.attributes[name]
    end
    function plugin.plugin_metadata(name)
        return host.metadata(name)
    end
    function plugin.get(name)
        local ok, found = pcall(require, "apisix.plugins." .. name)
        return ok and found or nil
    end
    function plugin.conf_version(conf)
        local meta = type(conf) == "table" and conf._meta
        local parent = meta and meta.parent
        return parent and tostring(parent.resource_key) .. "#" .. tostring(parent.resource_version) or ""
    end
    function plugin.skip_plugin(ctx, name)
        ctx._skip_plugins = ctx._skip_plugins or {}
        ctx._skip_plugins[name] = true
    end
    function plugin.enable_gde()
        return false
    end
    return plugin
end

preload["apisix.consumer"] = function()
    local consumer = {}
    local cached, versions = {}, {}
    -- All consumers with credentials of a plugin.
    function consumer.plugin(name)
        local version = host.consumers_version()
        if versions[name] ~= version then
            cached[name] = host.consumers_of(name)
            versions[name] = version
            if cached[name] then
                cached[name].conf_version = version
            end
        end
        return cached[name]
    end
    consumer.consumers_conf = consumer.plugin
    local by_key = setmetatable({}, { __mode = "k" })
    function consumer.consumers_kv(_, conf, attr)
        local known = by_key[conf]
        if not known then
            known = {}
            by_key[conf] = known
        end
        local found = known[attr]
        if not found then
            found = {}
            for _, node in ipairs(conf.nodes) do
                local value = node.auth_conf[attr]
                if value ~= nil then
                    found[value] = node
                end
            end
            known[attr] = found
        end
        return found
    end
    function consumer.find_consumer(name, attr, value)
        local conf = consumer.plugin(name)
        if not conf then
            return nil, nil, "Missing related consumer"
        end
        return consumer.consumers_kv(name, conf, attr)[value], conf
    end
    function consumer.attach_consumer(ctx, found, conf)
        if not host.attach_consumer(found.consumer_name or found.username, found._plugin, found._key) then
            error("no consumer is called " .. tostring(found.consumer_name or found.username), 2)
        end
        ctx.consumer = found
        ctx.consumer_name = found.consumer_name
        ctx.consumer_group_id = found.group_id
        ctx.consumer_ver = conf and conf.conf_version
    end
    function consumer.get_anonymous_consumer(name)
        local found = host.consumer_named(name)
        if not found then
            return nil, nil, "failed to get anonymous consumer " .. tostring(name)
        end
        return found, { conf_version = host.consumers_version() }
    end
    return consumer
end

preload["apisix.upstream"] = function()
    local upstream = {
        scheme_to_port = { http = 80, https = 443, grpc = 80, grpcs = 443 },
    }
    function upstream.check_schema(conf)
        if type(conf) ~= "table" then
            return false, "invalid upstream"
        end
        local nodes = conf.nodes
        if not nodes and not conf.service_name then
            return false, "invalid configuration: nodes or service_name is required"
        end
        conf.type = conf.type or "roundrobin"
        conf.scheme = conf.scheme or "http"
        conf.pass_host = conf.pass_host or "pass"
        return true
    end
    upstream.check_upstream_conf = upstream.check_schema
    function upstream.set(ctx, key, version, conf)
        if not (ctx and key and version and conf) then
            error("missing argument", 2)
        end
        local written = {}
        for name, value in pairs(conf) do
            if name ~= "parent" and name ~= "original_nodes" and type(value) ~= "function" then
                written[name] = value
            end
        end
        local err = host.set_upstream(written)
        if err then
            error("invalid upstream: " .. err, 2)
        end
        ctx.upstream_conf, ctx.upstream_version, ctx.upstream_key = conf, version, key
    end
    function upstream.get_by_id(id)
        return { id = id, _by_id = true }
    end
    function upstream.set_scheme()
    end
    return upstream
end

preload["apisix.secret"] = function()
    return {
        fetch_secrets = function(refs)
            return refs
        end,
        has_secret_ref = function()
            return false
        end,
    }
end

preload["apisix.utils.auth"] = function()
    return {
        is_running_under_multi_auth = function(ctx)
            return ctx._plugin_name == "multi-auth"
        end,
    }
end

preload["apisix.tracer"] = function()
    local span = { finish = function() end, set_attributes = function() end, set_status = function() end }
    span.__index = span
    return {
        status = { ERROR = 2 },
        start = function()
            return span
        end,
        finish = function() end,
        finish_all = function() end,
    }
end
