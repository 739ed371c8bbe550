-- The module `ngx.process`: what is true of a worker.

local native = ...

return {
  version = "0.1.28",
  type = function()
    return "worker"
  end,
  get_master_pid = function()
    return native.worker_pid
  end,
}
