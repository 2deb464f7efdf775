//! One position-independent region of memory.
