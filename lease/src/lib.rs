//! A lease: a fencing token and a signal that it was lost
