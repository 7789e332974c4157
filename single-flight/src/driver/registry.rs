//! One service for each directory in this process, found by the directory's identity.

use super::service::{Handle, Service, Settings};
use super::state::State;
use super::thread;
use crate::client::Client;
use crate::error::OpenError;
use crate::protocol::PROTOCOL_VERSION;
use flight_connection::{Options, Phase, Supervisor};
use flight_key_lock::{DirectoryIdentity, KeyLocks, LocalDirectory};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

static SERVICES: Mutex<BTreeMap<DirectoryIdentity, Weak<Service>>> = Mutex::new(BTreeMap::new());
static NUMBERS: AtomicU64 = AtomicU64::new(1);

fn services() -> MutexGuard<'static, BTreeMap<DirectoryIdentity, Weak<Service>>> {
    SERVICES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handle on the directory's service, which is started if there is none.
pub(crate) fn open(path: &Path, settings: Settings) -> Result<Handle, OpenError> {
    let directory = LocalDirectory::open(path)?;
    // Locked to the end: two who open one directory at the same moment get one service.
    let mut services = services();
    let known = services.get(&directory.identity()).and_then(Weak::upgrade);
    // A service from before a fork is the parent's.
    if let Some(service) = known.filter(|service| !service.is_forked())
        && let Some(handle) = Handle::new(service, settings.clone())
    {
        return Ok(handle);
    }
    let handle = start(&directory, settings)?;
    services.retain(|_, service| service.strong_count() > 0);
    services.insert(directory.identity(), Arc::downgrade(&handle.service));
    Ok(handle)
}

/// The directory's path leads to another directory now: whoever opens that one finds the same service.
pub(super) fn moved(service: &Arc<Service>, to: DirectoryIdentity) {
    let mut services = services();
    services.retain(|_, known| known.strong_count() > 0 && !std::ptr::eq(known.as_ptr(), Arc::as_ptr(service)));
    services.entry(to).or_insert_with(|| Arc::downgrade(service));
}

fn start(directory: &LocalDirectory, settings: Settings) -> Result<Handle, OpenError> {
    let key_locks = KeyLocks::new(directory)?;
    let runtime = thread::runtime().map_err(|source| thread::failed(directory, source))?;
    let supervisor = {
        let _entered = runtime.enter();
        let mut options = Options::new(PROTOCOL_VERSION, concat!("single-flight/", env!("CARGO_PKG_VERSION")));
        options.max_frame = settings.max_frame;
        Supervisor::new(directory.clone(), options)?
    };
    let state = State {
        client: Client::new(std::process::id()),
        serving: None,
        uplink: None,
        key_locks,
        directory: directory.clone(),
        locks: HashMap::new(),
        leases: HashMap::new(),
        slots: HashMap::new(),
        errors: BTreeMap::new(),
        owners: BTreeMap::new(),
        closers: BTreeMap::new(),
        askers: BTreeMap::new(),
        phase: Phase::Idle,
        silent_since: None,
        errands: Vec::new(),
        armed: None,
        stopping: false,
        next_number: 0,
    };
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    let service = Arc::new(Service::new(number, state, supervisor.handle()));
    // Before the thread: it ends when it finds no handle.
    let handle = Handle::new(service.clone(), settings).expect("a service that has no thread yet is not stopping");
    thread::spawn(service, supervisor, runtime).map_err(|source| thread::failed(directory, source))?;
    Ok(handle)
}
