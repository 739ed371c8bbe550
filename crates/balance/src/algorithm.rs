//! The names of the algorithms.

use std::fmt;
use std::str::FromStr;

use model::ConfigError;

/// How the requests of one upstream are spread over its nodes: the `type` of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Algorithm {
    /// In turn, as often as the weights say.
    #[default]
    RoundRobin,
    /// The same node for the same key, on a ring of hash points.
    Chash,
    /// The quicker of two nodes taken at random.
    Ewma,
    /// The node with the fewest requests in flight for its weight.
    LeastConn,
    /// The one with the fewer requests in flight for its weight, of two nodes taken at random; ours.
    P2c,
}

impl Algorithm {
    /// All of them, in the order in which APISIX documents them, ours last.
    pub const ALL: [Self; 5] = [Self::RoundRobin, Self::Chash, Self::Ewma, Self::LeastConn, Self::P2c];

    /// As written in configurations.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RoundRobin => "roundrobin",
            Self::Chash => "chash",
            Self::Ewma => "ewma",
            Self::LeastConn => "least_conn",
            Self::P2c => "p2c",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Algorithm {
    type Err = ConfigError;

    /// Reads an upstream's `type`. The error's path is `/type`, seen from the upstream.
    fn from_str(name: &str) -> Result<Self, ConfigError> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::as_str).join(", ");
            ConfigError::new("/type", format!("unknown balancer \"{name}\", expected one of {known}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_and_others_are_refused_with_the_choice() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
        for name in ["", "RoundRobin", "round_robin", "priority", "least_conn "] {
            let error = name.parse::<Algorithm>().unwrap_err();
            assert_eq!(error.path, "/type");
            assert!(error.message.ends_with("roundrobin, chash, ewma, least_conn, p2c"), "{error}");
        }
    }
}
