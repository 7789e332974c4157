//! Named pipes.
