//! The bounds of documents, with their sums.

/// Largest document in bytes: 100,000 routes of 600 bytes.
pub const BYTES_MAX: u64 = 64 << 20;

/// Deepest nesting of lists and mappings. A plugin's configuration in a service in a list is 8 deep; the reader
/// recurses, and 64 levels of it fit any stack.
pub const DEPTH_MAX: usize = 64;

/// Most nodes (keys, values, lists and mappings). The smallest route has 13, one with an upstream of its own and three
/// plugins about 45: 100,000 of these are 4.5 million. A node takes about 100 bytes, so the worst document takes
/// 600 MB, and a usual one of 100,000 routes 150 MB while it is read.
pub const NODES_MAX: usize = 6_000_000;

/// Most events of the YAML parser: a list and a mapping have two, everything else one.
pub const EVENTS_MAX: usize = 2 * NODES_MAX;

/// Most events that aliases and merge keys repeat: each repeated event becomes a node too, so a document of aliases is
/// no larger than one that is written out. Aliases of aliases (the "billion laughs") end here.
pub const REPLAYED_EVENTS_MAX: usize = NODES_MAX;

/// Most aliases: two in each of 100,000 routes.
pub const ALIASES_MAX: usize = 200_000;

/// Most anchors: one in each of 100,000 routes.
pub const ANCHORS_MAX: usize = 100_000;

/// Most merge keys: one in each of 100,000 routes.
pub const MERGE_KEYS_MAX: usize = 100_000;
