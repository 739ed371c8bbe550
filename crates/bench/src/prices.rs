//! What machines cost per hour, with source and date.
