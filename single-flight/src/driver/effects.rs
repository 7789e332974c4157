//! What is done after the machines are unlocked, because other people's code may run: wakers, runtimes, sockets.

use super::registry;
use super::service::Service;
use super::slot::{Delivered, Slot};
use super::work;
use crate::client::JoinedFlight;
use crate::lease::Lease;
use crate::status::StatusReport;
use flight_connection::Connection;
use flight_key_lock::DirectoryIdentity;
use flight_lease::LeaseController;
use std::sync::Arc;
use tokio::sync::oneshot;

pub(super) enum Effect {
    /// Run the call's work.
    Start(Arc<Slot>, Lease),
    /// Tell the call that it joined.
    Joined(Arc<Slot>, JoinedFlight),
    /// Tell the call how it ended.
    Deliver(Arc<Slot>, Delivered),
    /// Fire the lost signal. The controller comes back afterwards by its own `Arc`.
    Lose(Arc<LeaseController>),
    /// A handle has closed.
    Closed(oneshot::Sender<()>),
    /// A question after the status is answered.
    Status(oneshot::Sender<Option<StatusReport>>, Option<StatusReport>),
    /// Close a connection.
    Close(Connection),
    /// Whoever opens this directory finds this service.
    Moved(DirectoryIdentity),
}

impl Effect {
    pub(super) fn run(self, service: &Arc<Service>) {
        match self {
            Effect::Start(slot, lease) => {
                if let Some((runtime, work, lease)) = slot.take_work(lease) {
                    work::spawn(&runtime, slot, work, lease);
                }
            }
            Effect::Joined(slot, flight) => slot.joined(flight),
            Effect::Deliver(slot, delivered) => slot.deliver(delivered),
            Effect::Lose(controller) => controller.lose(),
            // Whoever asked may have gone: then nobody needs the answer.
            Effect::Closed(closer) => drop(closer.send(())),
            Effect::Status(asker, report) => drop(asker.send(report)),
            Effect::Close(connection) => connection.close(),
            Effect::Moved(to) => registry::moved(service, to),
        }
    }
}

/// Everything that one turn of the machines wants done.
#[derive(Default)]
pub(super) struct Effects {
    pub(super) list: Vec<Effect>,
    /// The connections that frames were queued on, and whether somebody waits for a frame to be written.
    pub(super) touched: Vec<(Connection, bool)>,
    /// The service thread has something to do that only it can do, or an earlier time to wake at.
    pub(super) wake_thread: bool,
}

impl Effects {
    pub(super) fn touch(&mut self, connection: &Connection, marked: bool) {
        match self.touched.iter_mut().find(|(known, _)| known.id() == connection.id()) {
            Some((_, known)) => *known |= marked,
            None => self.touched.push((connection.clone(), marked)),
        }
    }
}
