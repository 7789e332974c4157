//! A supervisor with its owner, for tests: everything it waits for is an event, within a deadline that fails loudly.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use flight_connection::{Connection, ConnectionId, DisconnectReason, Event, Frame, Options, Supervisor, Term};
use flight_key_lock::LocalDirectory;

/// Long enough for any machine; a test that reaches it fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) fn options() -> Options {
    Options::new(1, "test 1.0")
}

pub(crate) fn local(folder: &Path) -> LocalDirectory {
    LocalDirectory::open(folder).expect("it is local, and ours")
}

/// A supervisor and what it told.
pub(crate) struct Party {
    pub(crate) supervisor: Supervisor,
    /// What was waited for, and what came before it.
    pub(crate) passed: Vec<Event>,
    /// What came while others were waited for.
    unseen: VecDeque<Event>,
}

impl Party {
    pub(crate) fn new(folder: &Path) -> Party {
        Party::with(folder, options())
    }

    pub(crate) fn with(folder: &Path, options: Options) -> Party {
        let mut supervisor = Supervisor::new(local(folder), options).expect("the path is short");
        supervisor.want(true);
        Party { supervisor, passed: Vec::new(), unseen: VecDeque::new() }
    }

    /// The first event that `wanted` makes something of. Those before it are kept in `passed`.
    #[track_caller]
    pub(crate) fn until<T>(&mut self, wanted: impl FnMut(&Event) -> Option<T>) -> impl Future<Output = T> {
        self.until_within(DEADLINE, wanted)
    }

    #[track_caller]
    pub(crate) fn until_within<T>(
        &mut self,
        deadline: Duration,
        mut wanted: impl FnMut(&Event) -> Option<T>,
    ) -> impl Future<Output = T> {
        let caller = std::panic::Location::caller();
        async move {
            let found = tokio::time::timeout(deadline, async {
                loop {
                    let event = self.next().await;
                    let found = wanted(&event);
                    self.passed.push(event);
                    if let Some(found) = found {
                        return found;
                    }
                }
            });
            match found.await {
                Ok(found) => found,
                Err(_) => panic!("{caller}: it did not come within {deadline:?}; what came: {:#?}", self.passed),
            }
        }
    }

    async fn next(&mut self) -> Event {
        match self.unseen.pop_front() {
            Some(event) => event,
            None => self.supervisor.next().await,
        }
    }

    #[track_caller]
    pub(crate) fn elected(&mut self) -> impl Future<Output = Term> {
        self.until(|event| match event {
            Event::Elected(term) => Some(term.clone()),
            _ => None,
        })
    }

    #[track_caller]
    pub(crate) fn connected(&mut self) -> impl Future<Output = Connection> {
        self.until(|event| match event {
            Event::Connected(connection) => Some(connection.clone()),
            _ => None,
        })
    }

    #[track_caller]
    pub(crate) fn accepted(&mut self) -> impl Future<Output = Connection> {
        self.until(|event| match event {
            Event::Accepted(connection) => Some(connection.clone()),
            _ => None,
        })
    }

    #[track_caller]
    pub(crate) fn frame(&mut self) -> impl Future<Output = Frame> {
        self.until(|event| match event {
            Event::Frame(_, frame) => Some(frame.clone()),
            _ => None,
        })
    }

    #[track_caller]
    pub(crate) fn disconnected(&mut self) -> impl Future<Output = ConnectionId> {
        self.until(|event| match event {
            Event::Disconnected(id, _) => Some(*id),
            _ => None,
        })
    }

    /// Goes on until the future of another party is ready.
    pub(crate) async fn attend<T>(&mut self, other: impl Future<Output = T>) -> T {
        tokio::pin!(other);
        loop {
            tokio::select! {
                biased;
                value = &mut other => return value,
                event = self.supervisor.next() => self.unseen.push_back(event),
            }
        }
    }

    /// Goes on for so long, in which nothing may end or fail.
    pub(crate) async fn stay_undisturbed(&mut self, during: Duration) {
        // tidy: that nothing happens can only be seen by letting time pass
        self.attend(tokio::time::sleep(during)).await;
        self.assert_undisturbed();
    }

    /// Whether anything was told of an end or a failure.
    #[track_caller]
    pub(crate) fn assert_undisturbed(&self) {
        let disturbed = self.passed.iter().chain(&self.unseen).find(|event| {
            matches!(event, Event::Disconnected(..) | Event::Deposed(_) | Event::Failed(_) | Event::EpochRaised(_))
        });
        assert!(disturbed.is_none(), "{disturbed:?}");
    }
}

/// Goes on with both until each has found what is wanted of it.
#[track_caller]
pub(crate) fn meet<T, U>(
    one: &mut Party,
    mut of_one: impl FnMut(&Event) -> Option<T>,
    other: &mut Party,
    mut of_other: impl FnMut(&Event) -> Option<U>,
) -> impl Future<Output = (T, U)> {
    let caller = std::panic::Location::caller();
    async move {
        let (mut first, mut second) = (None, None);
        // tidy: the deadline of the test
        let deadline = tokio::time::sleep(DEADLINE);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                event = one.next() => {
                    first = first.or_else(|| of_one(&event));
                    one.passed.push(event);
                }
                event = other.next() => {
                    second = second.or_else(|| of_other(&event));
                    other.passed.push(event);
                }
                () = &mut deadline => panic!("{caller}: not within {DEADLINE:?}: {:#?}, {:#?}", one.passed, other.passed),
            }
            match (first, second) {
                (Some(first), Some(second)) => return (first, second),
                pending => (first, second) = pending,
            }
        }
    }
}

/// A party that serves and one that is connected to it, with the two ends of their connection.
pub(crate) async fn two(folder: &Path) -> (Party, Party, Connection, Connection) {
    let mut server = Party::new(folder);
    server.elected().await;
    let mut client = Party::new(folder);
    let (to_server, to_client) = tokio::join!(client.connected(), server.accepted());
    (server, client, to_client, to_server)
}

pub(crate) fn say(connection: &Connection, text: &str) {
    connection.queue(&text_frame(text)).expect("it is short");
    connection.flush();
}

pub(crate) fn text_frame(text: &str) -> Frame {
    Frame::new(format!("{{\"text\":\"{text}\"}}"), Vec::new())
}

/// How the connection ended, if the party was told so.
pub(crate) fn end_of(party: &Party, id: ConnectionId) -> Option<&DisconnectReason> {
    party.passed.iter().find_map(|event| match event {
        Event::Disconnected(ended, reason) if *ended == id => Some(reason),
        _ => None,
    })
}
