//! What the builder makes of resources, seen from outside: by the answers that requests would get.

mod changes;
mod consumers;
mod fixture;
mod following;
mod merging;
mod random;
mod renewal;
mod revealing;
mod scale;
mod streams;
