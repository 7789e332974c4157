//! What a frame there and back costs, beside the least that a socket costs: 64 bytes there and back on a bare tokio stream.
//!
//! Each side has a thread with a runtime of its own, as processes would.

use std::hint::black_box;
use std::thread;

use criterion::{Criterion, criterion_group, criterion_main};
use flight_connection::{Connection, Event, Frame, Options, Supervisor};
use flight_key_lock::LocalDirectory;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it can be built")
}

/// Sends every frame back, on a thread of its own, until the client has gone.
fn echo(mut supervisor: Supervisor) {
    supervisor.want(true);
    let (elected, is_elected) = oneshot::channel();
    let mut elected = Some(elected);
    thread::spawn(move || {
        runtime().block_on(async move {
            let mut client: Option<Connection> = None;
            loop {
                match supervisor.next().await {
                    Event::Elected(_) => drop(elected.take().map(|elected| elected.send(()))),
                    Event::Accepted(connection) => client = Some(connection),
                    Event::Frame(_, frame) => {
                        if let Some(client) = &client {
                            client.queue(&frame).expect("it came with this length");
                            client.flush();
                        }
                    }
                    Event::Disconnected(..) => return,
                    _ => {}
                }
            }
        });
    });
    is_elected.blocking_recv().expect("it is elected");
}

fn round_trips(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("round_trip");

    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let open = || {
        let directory = LocalDirectory::open(folder.path()).expect("it is local");
        Supervisor::new(directory, Options::new(1, "bench")).expect("the path is short")
    };
    echo(open());
    let runtime = runtime();
    let mut client = open();
    client.want(true);
    let connection = runtime.block_on(async {
        loop {
            if let Event::Connected(connection) = client.next().await {
                return connection;
            }
        }
    });
    for (name, length) in [("frame", 0), ("frame of 64 KiB", 64 << 10)] {
        let frame = Frame::new(r#"{"lead":{"id":1,"key":"a key of some length"}}"#, vec![0; length]);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                runtime.block_on(async {
                    connection.queue(&frame).expect("it is short");
                    connection.flush();
                    loop {
                        if let Event::Frame(_, frame) = client.next().await {
                            return black_box(frame);
                        }
                    }
                })
            });
        });
    }

    let path = folder.path().join("bare.sock");
    let listening = path.clone();
    let (bound, is_bound) = oneshot::channel();
    thread::spawn(move || {
        self::runtime().block_on(async move {
            let listener = UnixListener::bind(listening).expect("the name is free");
            bound.send(()).ok();
            let (mut stream, _) = listener.accept().await.expect("somebody comes");
            let mut buffer = [0; 64];
            while stream.read_exact(&mut buffer).await.is_ok() {
                if stream.write_all(&buffer).await.is_err() {
                    return;
                }
            }
        });
    });
    is_bound.blocking_recv().expect("it is bound");
    let mut stream = runtime.block_on(UnixStream::connect(path)).expect("it listens");
    group.bench_function("bare stream", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let mut buffer = [0; 64];
                stream.write_all(&buffer).await.expect("it is read");
                stream.read_exact(&mut buffer).await.expect("it is answered");
                black_box(buffer)
            })
        });
    });
    group.finish();
}

criterion_group!(benches, round_trips);
criterion_main!(benches);
