//! Fencing tokens: order the holders of a lock, and refuse the stale ones
