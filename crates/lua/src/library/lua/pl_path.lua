-- pl.path: the functions on paths that touch no file.

local sub, find, match = string.sub, string.find, string.match

local _M = { sep = "/", dirsep = ":", is_windows = false }

function _M.isabs(path)
  return sub(path, 1, 1) == "/"
end

-- The folder and the name.
function _M.splitpath(path)
  local folder, name = match(path, "^(.*)/([^/]*)$")
  if not folder then
    return "", path
  end
  return folder, name
end

-- What is before the extension, and the extension with its dot.
function _M.splitext(path)
  local before, extension = match(path, "^(.*)(%.[^./]*)$")
  if not before then
    return path, ""
  end
  return before, extension
end

function _M.dirname(path)
  return (_M.splitpath(path))
end

function _M.basename(path)
  local _, name = _M.splitpath(path)
  return name
end

function _M.extension(path)
  local _, extension = _M.splitext(path)
  return extension
end

function _M.join(first, second, ...)
  local joined = first
  if second then
    joined = _M.isabs(second) and second or joined ~= "" and sub(joined, -1) ~= "/" and joined .. "/" .. second
      or joined .. second
  end
  if select("#", ...) > 0 then
    return _M.join(joined, ...)
  end
  return joined
end

-- Without `.`, `..` and doubled slashes.
function _M.normpath(path)
  local absolute = _M.isabs(path)
  local out = {}
  for part in string.gmatch(path, "[^/]+") do
    if part == ".." and #out > 0 and out[#out] ~= ".." then
      out[#out] = nil
    elseif part ~= "." and not (part == ".." and absolute) then
      out[#out + 1] = part
    end
  end
  local text = table.concat(out, "/")
  if absolute then
    -- Two slashes at the beginning are a root of their own.
    return (find(path, "^//[^/]") and "//" or "/") .. text
  end
  return text ~= "" and text or "."
end

-- Of an absolute path, or of one below `folder`.
function _M.abspath(path, folder)
  if not _M.isabs(path) and folder then
    path = _M.join(folder, path)
  end
  return _M.normpath(path)
end

return _M
