use crate::client::JoinedFlight;
use crate::codec::{Codec, Json};
use crate::driver::{self, Handle, SharedError, Ticket, Work};
use crate::error::{CloseError, OpenError, RunError};
use crate::key::Key;
use crate::lease::Lease;
use crate::lineage::Lineage;
use crate::run::{Joined, Run, end_of_work};
use crate::status::Status;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The longest frame that may be asked for: what the coordinator lets wait for one connection.
const MOST_FRAME: usize = crate::coordinator::QUEUE_LIMIT;

/// What a [`SingleFlight`] is opened with, where the defaults do not fit.
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    label: String,
    max_frame: usize,
}

impl Default for Options {
    fn default() -> Self {
        let program = std::env::args_os().next().unwrap_or_default();
        let label = Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        Options { label, max_frame: flight_connection::DEFAULT_MAX_FRAME }
    }
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Options::default()
    }

    /// What this process calls itself to those who wait for it. The program's file name, unless set.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// The longest frame, in bytes: 64 MiB, unless set, and at most 128 MiB. A value must be shorter than it by 64 KiB and six times its
    /// key. Give all handles and processes of a directory the same: of two that meet the lower counts, and a value that is
    /// too long for the other side reaches its joiners as the failure `too_large`.
    pub fn max_frame(mut self, bytes: usize) -> Self {
        self.max_frame = bytes.min(MOST_FRAME);
        self
    }
}

/// A handle on the flights of a directory, for values of type `T`.
///
/// Clones are the same handle. Several handles of one process on one directory share a connection and a service thread, and the callers
/// among them share flights as those of other processes do. Drop the last clone and the service ends by itself, when nothing of it
/// is under way; [`close`](SingleFlight::close) ends it now and tells when all is delivered.
///
/// After a fork the child cannot use what it inherited ([`RunError::Forked`]): it opens its own.
pub struct SingleFlight<T> {
    handle: Arc<Handle>,
    codec: Arc<dyn Codec<T>>,
}

impl<T: Serialize + DeserializeOwned + Send + 'static> SingleFlight<T> {
    /// Opens the flights of a directory, with JSON as the encoding of values. The directory is created, for its owner alone, if it does
    /// not exist.
    ///
    /// It blocks for some system calls on a local disk. It does not connect: the first call does.
    ///
    /// # Errors
    /// See [`OpenError`]: a network file system, a path that leaves no room for a socket, another user's directory. Nothing is locked then.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, OpenError> {
        SingleFlight::open_with(directory, Options::default())
    }

    /// Opens the flights of a directory, with options.
    ///
    /// # Errors
    /// Those of [`open`](SingleFlight::open).
    pub fn open_with(directory: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        let settings = driver::Settings { label: options.label, max_frame: options.max_frame };
        let handle = driver::open(directory.as_ref(), settings)?;
        Ok(SingleFlight { handle: Arc::new(handle), codec: Arc::new(Json) })
    }
}

impl<T> SingleFlight<T> {
    /// The same handle for values of another type or encoding, over the same connection.
    pub fn with_codec<U>(&self, codec: impl Codec<U> + 'static) -> SingleFlight<U> {
        SingleFlight { handle: self.handle.clone(), codec: Arc::new(codec) }
    }

    /// Runs `work` for `key`, or joins the flight of the key that is in progress.
    ///
    /// The work runs at most once at a time among all callers of all processes that name the directory. It is spawned on the current tokio
    /// runtime, so it outlives its caller: dropping the call withdraws the caller, and the work goes on and lands for the joiners. A call
    /// after the flight ended starts a new one: a flight is not a cache.
    ///
    /// Nothing happens before the returned [`Run`] is awaited or started.
    ///
    /// # Errors
    /// See [`RunError`]. A panic of the work is resumed in the leader's own call; joiners get [`RunError::Failed`] with its text.
    pub fn run<W, F, E>(&self, key: impl Into<String>, work: W) -> Run<T>
    where
        T: Send + 'static,
        W: FnOnce(Lease) -> F + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let key = Key::from(key);
        let (codec, limit) = (self.codec.clone(), self.value_limit(&key));
        let work: Work = Box::new(move |lease| {
            Box::pin(async move {
                let result = work(lease).await;
                end_of_work(&*codec, limit, result)
            })
        });
        let flights = self.clone();
        Run { flights, key, work, on_join: None, wait_timeout: None, lineage: Lineage::current() }
    }

    /// What is in flight, who waits for what, and what is known of the coordinator. It never elects one, and waits at most a second.
    pub async fn status(&self) -> Status {
        self.handle.status().await
    }

    /// Ends the handle and all its clones: calls that wait end with [`RunError::Closed`], and so does every later one.
    ///
    /// It waits until every outcome of this handle's works that ended is acknowledged. A work that still runs goes on and keeps its key, its
    /// own call gets its value, and its joiners hear `interrupted`. If the process was the coordinator and no other handle needs it, it
    /// resigns, and when this returns its lock is free.
    ///
    /// # Cancellation
    /// The handle is closed by the first poll; dropping the future later only stops the waiting.
    ///
    /// # Errors
    /// After a fork. A second close does nothing, successfully.
    pub async fn close(&self) -> Result<(), CloseError> {
        if let Some(closed) = self.handle.close()? {
            // The sender stays with the service until it is used.
            drop(closed.await);
            self.handle.leave().await;
        }
        Ok(())
    }

    /// Like [`close`](SingleFlight::close), and gives up waiting after `limit`: for a coordinator that may be frozen.
    ///
    /// What was not acknowledged keeps its key no longer when the last handle of the process is closed.
    ///
    /// # Errors
    /// [`CloseError::Unacknowledged`] when the time ran out. The handle is closed all the same.
    ///
    /// # Panics
    /// Outside a tokio runtime with a timer. [`blocking::SingleFlight::close_timeout`](crate::blocking::SingleFlight::close_timeout) needs none.
    pub async fn close_timeout(&self, limit: Duration) -> Result<(), CloseError> {
        let Some(closed) = self.handle.close()? else { return Ok(()) };
        let in_time = tokio::time::timeout(limit, closed).await.is_ok();
        self.handle.leave_after(limit, in_time).await
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) fn codec(&self) -> &Arc<dyn Codec<T>> {
        &self.codec
    }

    /// How long an encoded value may be, so that it fits into a frame with its header.
    pub(crate) fn value_limit(&self, key: &Key) -> usize {
        /// The header's other fields, with room to spare.
        const HEADER: usize = 64 << 10;
        // A character of a key may take six in JSON.
        self.handle.settings.max_frame.saturating_sub(HEADER + 6 * key.as_bytes().len())
    }

    pub(crate) fn begin(
        &self,
        key: &Key,
        work: Work,
        wait: Option<Duration>,
        lineage: &Lineage,
    ) -> Result<Ticket, RunError> {
        self.handle.begin_task(key, self.codec.name(), wait, lineage, work)
    }

    pub(crate) fn describe(&self, flight: &JoinedFlight) -> Joined {
        Joined::of(flight, self.handle.service.now())
    }

    pub(crate) fn shared_error(&self, key: Key, error: Option<SharedError>) -> RunError {
        match error {
            Some(SharedError::Lock(source)) => RunError::Lock { key, source },
            Some(SharedError::Attempt(source)) => {
                let directory = self.handle.service.directory();
                RunError::Unavailable { key, directory, source }
            }
            // The driver hands every error over with its verdict.
            None => RunError::Closed { key },
        }
    }
}

impl<T> Clone for SingleFlight<T> {
    fn clone(&self) -> Self {
        SingleFlight { handle: self.handle.clone(), codec: self.codec.clone() }
    }
}

impl<T> fmt::Debug for SingleFlight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directory = self.handle.service.directory();
        f.debug_struct("SingleFlight").field("directory", &directory).field("codec", &self.codec.name()).finish()
    }
}
