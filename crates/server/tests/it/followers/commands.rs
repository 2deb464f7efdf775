//! What each command tells.
