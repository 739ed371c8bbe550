-- resty.core.regex: the function that plugins check patterns with.

local native = ...

return {
  -- Something that is true, or nil and a message, if the pattern doesn't compile.
  re_match_compile = function(regex, options)
    local from, message, raised = native.regex_find("", tostring(regex), options and tostring(options) or nil, 1)
    if from == nil and message then
      if raised == true then
        error(message, 2)
      end
      return nil, message
    end
    return { regex = regex, options = options }
  end,
}
