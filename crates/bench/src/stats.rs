//! Statistics over repeated runs: median, spread, intervals by bootstrap, Mann-Whitney.
