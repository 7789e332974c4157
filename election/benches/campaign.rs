//! What a term costs: a campaign that is won, and one that finds another leader.
//!
//! The first is three times the disk's fsync (the new `flight.epoch`, its directory, `flight.lock`); the second is what each
//! waiting process costs the host up to about thirty times a second.

use criterion::{Criterion, criterion_group, criterion_main};
use flight_election::Election;
use flight_key_lock::LocalDirectory;

fn campaign(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let directory = LocalDirectory::open(folder.path()).expect("it is local");
    let election = Election::new(directory);

    c.bench_function("win and resign", |bencher| {
        bencher.iter(|| {
            let leadership = election.try_campaign().expect("nothing is in the way").expect("nobody leads");
            leadership.resign().expect("the lock is ours");
        });
    });

    let leadership = election.try_campaign().expect("nothing is in the way").expect("nobody leads");
    c.bench_function("lose", |bencher| {
        bencher.iter(|| assert!(election.try_campaign().expect("nothing is in the way").is_none()));
    });
    c.bench_function("is_current", |bencher| {
        bencher.iter(|| assert!(leadership.is_current().expect("it can be looked at")));
    });
}

criterion_group!(benches, campaign);
criterion_main!(benches);
