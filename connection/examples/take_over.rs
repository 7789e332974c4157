//! Three processes of one directory. One serves; it is killed; another one serves.
//!
//! ```sh
//! cargo run -p flight-connection --example take_over
//! ```

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use flight_connection::{Event, Options, Phase, Supervisor};
use flight_key_lock::LocalDirectory;

/// No step of this takes so long on any machine.
const LIMIT: Duration = Duration::from_secs(20);

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args_os().nth(1) {
        Some(directory) => take_part(directory.as_ref()),
        None => watch_three(),
    }
}

/// One of the three: says who serves, until it is killed.
#[allow(clippy::print_stdout, reason = "that is how it tells the first process")]
fn take_part(directory: &Path) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut supervisor = Supervisor::new(LocalDirectory::open(directory)?, Options::new(1, "take_over"))?;
        supervisor.want(true);
        loop {
            match supervisor.next().await {
                Event::Phase(Phase::Serving { epoch }) => println!("serves, in the term {epoch}"),
                Event::Phase(Phase::Connected { pid, epoch }) => {
                    println!("is served by process {} in the term {epoch}", pid.unwrap_or(0));
                }
                Event::Disconnected(_, reason) => println!("lost a connection: {reason}"),
                _ => {}
            }
        }
    })
}

#[allow(clippy::print_stdout, reason = "an example shows what happens")]
fn watch_three() -> Result<(), Box<dyn Error>> {
    let directory = std::env::temp_dir().join(format!("take-over-{}", std::process::id()));
    let (sender, said) = mpsc::channel();
    let mut children = Vec::new();
    for _ in 0..3 {
        children.push(start(&directory, sender.clone())?);
    }
    for round in 0..2 {
        let begun = Instant::now();
        let (mut server, mut settled) = (None, 0);
        while settled < children.len() {
            let (pid, line) = said.recv_timeout(LIMIT)?;
            println!("{:6.1} ms  process {pid} {line}", begun.elapsed().as_secs_f64() * 1e3);
            settled += usize::from(line.contains("serve"));
            server = server.or(line.starts_with("serves").then_some(pid));
        }
        let place = children.iter().position(|child| Some(child.id()) == server).ok_or("nobody serves")?;
        if round == 0 {
            println!("\nkilling process {}", children[place].id());
            children[place].kill()?;
            children[place].wait()?;
            children.retain(|child| Some(child.id()) != server);
        }
    }
    for child in &mut children {
        child.kill()?;
        child.wait()?;
    }
    std::fs::remove_dir_all(directory)?;
    Ok(())
}

/// Starts one of the three, and passes on what it says.
fn start(directory: &Path, said: Sender<(u32, String)>) -> Result<Child, Box<dyn Error>> {
    let mut child = Command::new(std::env::current_exe()?).arg(directory).stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().ok_or("it has one")?;
    let pid = child.id();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if said.send((pid, line)).is_err() {
                return;
            }
        }
    });
    Ok(child)
}
