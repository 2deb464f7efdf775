//! Outcomes to bytes.
