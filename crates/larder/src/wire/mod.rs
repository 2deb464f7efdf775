//! The operations in the form that a server needs: explicit flags, deadlines and cas tokens, values
//! that arrive in parts, no value copied twice. Programs use [`get`](crate::get) and
//! [`set`](crate::set), which are built on these operations.

mod change;
mod read;
mod store;
