//! The driver: carries the machines' actions to sockets, lock files and wakers. It decides nothing.
//!
//! There is one [`Service`] for each directory in a process, with one thread that reads the sockets and keeps the time. Callers enter the machines
//! on their own threads: [`Service::with`] locks them, handles an event, drains the actions, unlocks, and only then writes to sockets, wakes
//! tasks and spawns works. So no user code runs under the lock, and none on the service thread.
//!
//! A call's way, when the coordinator is another process: `begin` → machine → lock file → `lead` into the socket (all on the caller's
//! thread) → `go` read by the service thread → the work is spawned on the caller's runtime → its end enters the machine on that
//! runtime's thread → `land` into the socket → the caller is woken.

mod effects;
mod pump;
mod registry;
mod replaced;
mod service;
mod slot;
mod state;
mod thread;
mod work;

pub(crate) use registry::open;
pub(crate) use service::{Handle, Settings, Ticket};
pub(crate) use slot::{Delivered, OwnEnd, SharedError, Step};
pub(crate) use work::{Hold, Work, end_of_panic};
