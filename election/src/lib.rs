//! Elect one process of a host on a kernel file lock, with an epoch that only grows
