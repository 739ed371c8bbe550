//! sla
