//! Numbers as memcached's text dialects write them.
