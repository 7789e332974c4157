//! Callers of one key share the flight in progress, in one process and across the processes of a host
