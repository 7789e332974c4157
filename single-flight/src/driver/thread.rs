//! The service thread: reads the sockets, keeps the time, and runs the errands that only it can run.

use super::pump;
use super::service::Service;
use super::slot::SharedError;
use super::state::{Errand, Peer, Serving, State, Uplink};
use crate::client::{self, ErrorId};
use crate::coordinator::{self, ClientId, Coordinator, Link, Time};
use crate::error::OpenError;
use crate::protocol::{Request, Response};
use flight_connection::{Connection, ConnectionId, Event, Frame, Phase, Supervisor, Term};
use flight_key_lock::LocalDirectory;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// How long the thread sleeps when nothing is due: until somebody wakes it.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

pub(super) fn failed(directory: &LocalDirectory, source: io::Error) -> OpenError {
    OpenError::Thread { directory: directory.path().to_owned(), source }
}

pub(super) fn spawn(service: Arc<Service>, supervisor: Supervisor, runtime: Runtime) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("single-flight".to_owned());
    thread.spawn(move || {
        runtime.block_on(serve(&service, supervisor));
        service.stopped.send_replace(true);
    })?;
    Ok(())
}

async fn serve(service: &Arc<Service>, mut supervisor: Supervisor) {
    loop {
        let Some(sleep) = prepare(service, &mut supervisor).await else { break };
        tokio::select! {
            event = supervisor.next() => handle_event(service, event),
            () = service.wake.notified() => {}
            () = tokio::time::sleep(sleep) => {}
        }
        service.with(|state, now| {
            state.armed = None;
            if state.timeout().is_some_and(|at| at <= now) {
                state.client.handle(now, client::Event::Timeout);
                if let Some(serving) = &mut state.serving {
                    serving.machine.handle(now, coordinator::Event::Timeout);
                }
            }
        });
    }
    supervisor.close().await;
    service.with(|state, now| state.conclude(now));
}

/// Runs the errands, and finds out how long to sleep. `None`: nobody needs the service any more.
async fn prepare(service: &Arc<Service>, supervisor: &mut Supervisor) -> Option<Duration> {
    loop {
        let errands = {
            let now = service.now();
            let mut state = service.state();
            if state.is_unused() {
                state.stopping = true;
                return None;
            }
            let errands = std::mem::take(&mut state.errands);
            if errands.is_empty() {
                let at = state.timeout().unwrap_or(now + LONG);
                state.armed = Some(at);
                return Some(at.saturating_sub(now));
            }
            errands
        };
        for errand in errands {
            match errand {
                Errand::ReadDry(connection, ticket) => supervisor.read_dry(connection, ticket),
                Errand::Resign => supervisor.resign(),
            }
        }
    }
}

fn handle_event(service: &Arc<Service>, event: Event) {
    service.with_effects(|state, now, effects| match event {
        Event::DirectoryReplaced(directory) => {
            // The old locks stay, and every look at them tries again, until the directory can be used.
            if let Err(error) = state.go_on_in(now, directory, effects) {
                tracing::error!(%error, "the key locks of the new directory cannot be used");
            }
        }
        event => state.handle_event(now, event),
    });
}

impl State {
    fn handle_event(&mut self, now: Time, event: Event) {
        match event {
            Event::Connected(connection) => self.handle_connected(now, connection),
            Event::Elected(term) => self.handle_elected(now, term),
            Event::EpochRaised(epoch) => {
                if let Some(serving) = &mut self.serving {
                    serving.machine.handle(now, coordinator::Event::EpochRaised { epoch });
                }
            }
            Event::Accepted(connection) => self.handle_accepted(now, connection),
            Event::Frame(connection, frame) => self.handle_frame(now, connection, &frame),
            Event::Written(connection, written) => self.settle(now, connection, written),
            Event::Disconnected(connection, reason) => {
                tracing::debug!(?connection, %reason, "a connection ended");
                self.handle_disconnected(now, connection);
            }
            Event::Deposed(reason) => {
                tracing::warn!(%reason, "the term of this process ended");
                self.disconnect(now);
            }
            Event::Failed(error) => {
                tracing::warn!(%error, "could not reach a coordinator or become one");
                let (id, fatal) = (ErrorId(self.number()), error.is_fatal());
                self.errors.insert(id, SharedError::Attempt(Arc::new(error)));
                self.client.handle(now, client::Event::AttemptFailed { error: id, fatal });
            }
            Event::Phase(phase) => {
                if let Phase::NotAnswering { pid, .. } = phase {
                    tracing::warn!(?pid, "the coordinator holds its lock and does not answer: waiting for it");
                }
                self.phase = phase;
            }
            Event::Dry(ticket) => {
                if let Some(serving) = &mut self.serving {
                    serving.machine.handle(now, coordinator::Event::Dry { ticket });
                }
            }
            // Later events of the supervisor mean nothing to this version.
            _ => {}
        }
    }

    fn handle_connected(&mut self, now: Time, connection: Connection) {
        let epoch = connection.peer().hello.epoch;
        let pid = connection.peer().pid;
        tracing::info!(%epoch, ?pid, "connected to the coordinator");
        // The supervisor says so too, but a call may have ended before that is heard.
        self.phase = Phase::Connected { pid, epoch };
        self.uplink = Some(Uplink { connection, landings: VecDeque::new() });
        self.client.handle(now, client::Event::Linked { epoch });
    }

    fn handle_elected(&mut self, now: Time, term: Term) {
        let (epoch, pid) = (term.epoch(), std::process::id());
        tracing::info!(%epoch, "this process is the coordinator");
        self.phase = Phase::Serving { epoch };
        self.sweep_key_locks();
        let mut machine = Coordinator::new(now, epoch, pid);
        // Our own client makes no connection, and nobody else is told by this number.
        let client = ClientId(0);
        machine.handle(now, coordinator::Event::Connected { link: Link::LOCAL, client, pid });
        self.serving = Some(Serving { machine, term, peers: BTreeMap::new(), links: HashMap::new() });
        self.client.handle(now, client::Event::Linked { epoch });
    }

    /// Once in a term, the files of idle keys are removed, on a thread of its own: there may be many.
    fn sweep_key_locks(&self) {
        let key_locks = self.key_locks.clone();
        let thread = std::thread::Builder::new().name("single-flight-sweep".to_owned());
        let swept = thread.spawn(move || match key_locks.sweep() {
            Ok(sweep) => tracing::debug!(?sweep, "removed the lock files of idle keys"),
            Err(error) => tracing::warn!(%error, "could not remove the lock files of idle keys"),
        });
        if let Err(error) = swept {
            tracing::warn!(%error, "could not start the sweep of the lock files of idle keys");
        }
    }

    fn handle_accepted(&mut self, now: Time, connection: Connection) {
        let link = Link(self.number());
        let Some(serving) = &mut self.serving else { return };
        let (pid, client) = (connection.peer().hello.pid, client_of(link, connection.peer().hello.instance));
        serving.links.insert(connection.id(), link);
        serving.machine.handle(now, coordinator::Event::Connected { link, client, pid });
        serving.peers.insert(link, Peer { connection, deliveries: VecDeque::new(), backlogged: false, taken: 0 });
    }

    fn handle_frame(&mut self, now: Time, connection: ConnectionId, frame: &Frame) {
        if self.uplink.as_ref().is_some_and(|uplink| uplink.connection.id() == connection) {
            // An answer that cannot be read answers nothing.
            let response = Response::decode(frame).unwrap_or_else(|error| {
                tracing::warn!(%error, "an answer of the coordinator");
                Response::Unknown
            });
            self.client.handle(now, client::Event::Received(response));
            return;
        }
        let Some(serving) = &mut self.serving else { return };
        let Some(link) = serving.links.get(&connection).copied() else { return };
        match Request::decode(frame) {
            Ok(request) => {
                let current = !matches!(request, Request::Lead { .. }) || pump::is_current(&serving.term);
                let event = coordinator::Event::Received { link, request, term_is_current: current };
                serving.machine.handle(now, event);
            }
            Err(error) => tracing::warn!(%error, "a request of a client"),
        }
    }

    fn handle_disconnected(&mut self, now: Time, connection: ConnectionId) {
        if self.uplink.as_ref().is_some_and(|uplink| uplink.connection.id() == connection) {
            self.disconnect(now);
            return;
        }
        let Some(serving) = &mut self.serving else { return };
        if let Some(link) = serving.links.remove(&connection) {
            serving.peers.remove(&link);
            serving.machine.handle(now, coordinator::Event::Disconnected { link });
        }
    }

    /// The thread ends: nobody reads an answer or keeps the time from here on.
    fn conclude(&mut self, now: Time) {
        self.disconnect(now);
        // Whoever is to be told later is told now.
        self.client.handle(now + client::TELL, client::Event::Timeout);
        // Rule 1: a landing keeps its key until the acknowledgement or the close, and here is the close. The machine knows no other word for
        // it than the acknowledgement, and means landings only.
        let landings: Vec<_> = self.locks.keys().copied().collect();
        for id in landings {
            self.client.handle(now, client::Event::Received(Response::Ack { id }));
        }
    }

    /// Nobody serves us, and we serve nobody.
    fn disconnect(&mut self, now: Time) {
        let linked = self.serving.take().is_some() || self.uplink.take().is_some();
        if linked {
            self.phase = Phase::Connecting;
            self.client.handle(now, client::Event::Unlinked);
        }
    }
}

/// Who a client is. One that did not draw a number is nobody's successor: its link stands for it.
fn client_of(link: Link, instance: u64) -> ClientId {
    if instance == 0 { ClientId(u64::MAX - link.0) } else { ClientId(instance) }
}
