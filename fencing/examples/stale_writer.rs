//! A writer is paused while it holds a lock; another takes over; the first wakes up and writes. The fence refuses it.
//!
//! `cargo run -p flight-fencing --example stale_writer`

#![allow(clippy::print_stdout, reason = "an example shows what happens by printing it")]

use std::error::Error;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use flight_fencing::{Epoch, Fence, FencingToken, Stale, TokenSource};

/// What the lock protects. It knows nothing about the lock, only the tokens that come with the writes.
#[derive(Default)]
struct Store {
    fence: Fence,
    text: Mutex<String>,
}

impl Store {
    fn write(&self, token: FencingToken, new: &str) -> Result<(), Stale> {
        let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: admitted first and locked after, this writer could still overwrite a greater token's text.
        self.fence.admit(token)?;
        new.clone_into(&mut text);
        Ok(())
    }

    fn read(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let store = Store::default();
    let mut first_term = TokenSource::new(Epoch::new(1));
    let mut second_term = TokenSource::new(first_term.epoch().next()?);
    let (wake, paused) = mpsc::channel::<()>();

    thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        let slow = first_term.mint()?;
        println!("slow   holds the lock with {slow:?}, and is paused before it writes");
        let store = &store;
        let slow_writer = scope.spawn(move || {
            // A long garbage collection, a suspended laptop, a stopped container. The end of the channel wakes it too.
            let _ = paused.recv();
            store.write(slow, "written by slow")
        });

        let quick = second_term.mint()?;
        println!("quick  was given the lock with {quick:?}, and writes");
        store.write(quick, "written by quick")?;

        println!("slow   wakes up, sure that it still holds the lock, and writes");
        wake.send(())?;
        let outcome = slow_writer.join().map_err(|_| "the slow writer panicked")?;
        let Err(stale) = outcome else {
            return Err("the stale write went through".into());
        };
        println!("store  {stale}");
        Ok(())
    })?;

    println!("store  the text is {:?}", store.read());
    Ok(())
}
