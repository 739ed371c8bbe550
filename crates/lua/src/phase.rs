//! The moments in which Lua code runs.

/// A moment of an exchange, a session or the process in which Lua code runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    Rewrite,
    Access,
    BeforeProxy,
    HeaderFilter,
    BodyFilter,
    DelayedBodyFilter,
    Log,
    Preread,
    StreamLog,
    /// A plugin's endpoint for clients.
    Api,
    Timer,
    /// Loading, `init`, `check_schema`: no request.
    #[default]
    Init,
}

impl Phase {
    /// How many there are.
    pub(crate) const COUNT: usize = Self::Init as usize + 1;

    /// Those that plugins have functions for, in the order of a request.
    pub(crate) const OF_PLUGINS: [Self; 9] = [
        Self::Rewrite,
        Self::Access,
        Self::BeforeProxy,
        Self::HeaderFilter,
        Self::BodyFilter,
        Self::DelayedBodyFilter,
        Self::Log,
        Self::Preread,
        Self::StreamLog,
    ];

    /// The name of a plugin's function.
    pub(crate) fn function(self) -> &'static str {
        match self {
            Self::Rewrite => "rewrite",
            Self::Access => "access",
            Self::BeforeProxy => "before_proxy",
            Self::HeaderFilter => "header_filter",
            Self::BodyFilter => "body_filter",
            Self::DelayedBodyFilter => "delayed_body_filter",
            Self::Log | Self::StreamLog => "log",
            Self::Preread => "preread",
            Self::Api => "api",
            Self::Timer => "timer",
            Self::Init => "init",
        }
    }

    /// What `ngx.get_phase` says: nginx's phase. APISIX runs all plugins' functions before the upstream in `access`.
    pub(crate) fn of_nginx(self) -> &'static str {
        match self {
            Self::Rewrite | Self::Access | Self::BeforeProxy | Self::Api => "access",
            Self::HeaderFilter => "header_filter",
            Self::BodyFilter | Self::DelayedBodyFilter => "body_filter",
            Self::Log | Self::StreamLog => "log",
            Self::Preread => "preread",
            Self::Timer => "timer",
            Self::Init => "init_worker",
        }
    }

    /// Whether code may wait.
    pub(crate) fn may_wait(self) -> bool {
        matches!(self, Self::Rewrite | Self::Access | Self::BeforeProxy | Self::Api | Self::Timer)
    }

    /// Whether the request can still be answered by a plugin.
    pub(crate) fn may_answer(self) -> bool {
        matches!(self, Self::Rewrite | Self::Access | Self::BeforeProxy | Self::Api | Self::Preread)
    }
}
