-- apisix.core.ip.

local ipmatcher = require("resty.ipmatcher")
local tonumber, match = tonumber, string.match

local _M = {}

function _M.create_ip_matcher(list)
  local matcher, err = ipmatcher.new(list)
  if not matcher then
    if ngx.log then
      ngx.log(ngx.ERR, "failed to create ip matcher: ", err)
    end
    return nil
  end
  return matcher
end

function _M.validate_cidr_or_ip(text)
  local address, prefix = match(text, "^([^/]*)/(.*)$")
  local bits = 0
  if address then
    bits = tonumber(prefix)
    if not bits or bits < 0 or bits > 128 then
      return false
    end
  end
  address = address or text
  if ipmatcher.parse_ipv4(address) then
    return bits <= 32
  end
  return ipmatcher.parse_ipv6(address)
end

return _M
