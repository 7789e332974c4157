//! What a key lock costs when nobody else wants it, beside the bare system calls on a file that is there.

use criterion::{Criterion, criterion_group, criterion_main};
use flight_key_lock::{KeyLocks, LocalDirectory};

fn uncontended(criterion: &mut Criterion) {
    let home = tempfile::tempdir().expect("a directory");
    let directory = LocalDirectory::open(home.path()).expect("a directory for locks");
    let locks = KeyLocks::new(&directory).expect("a folder for locks");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");

    let mut group = criterion.benchmark_group("uncontended");
    #[cfg(unix)]
    group.bench_function("open, flock, unlock, close", |bencher| {
        let path = home.path().join("bare");
        std::fs::write(&path, "").expect("a file");
        bencher.iter(|| bare(&path));
    });
    group.bench_function("look, unlock", |bencher| {
        bencher.iter(|| locks.look(b"k").expect("a look").expect("nobody holds it").unlock().expect("an unlock"));
    });
    group.bench_function("acquire, unlock", |bencher| {
        let acquire = || async { locks.acquire(b"k").await.expect("a wait").unlock().expect("an unlock") };
        bencher.to_async(&runtime).iter(acquire);
    });
    group.bench_function("try_is_held, of a held key", |bencher| {
        let _lock = locks.look(b"held").expect("a look").expect("nobody holds it");
        // It tries for 2 ms, since somebody may only be looking.
        bencher.iter(|| assert!(locks.try_is_held(b"held").expect("a look")));
    });
    group.finish();
}

#[cfg(unix)]
fn bare(path: &std::path::Path) {
    use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
    let file = open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).expect("the file");
    flock(&file, FlockOperation::NonBlockingLockExclusive).expect("nobody holds it");
    flock(&file, FlockOperation::Unlock).expect("an unlock");
}

criterion_group!(benches, uncontended);
criterion_main!(benches);
