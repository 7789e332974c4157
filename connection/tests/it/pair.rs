//! The pair in memory behaves as a connection does.

use flight_connection::{Epoch, Frame, Hello, Written, memory};

fn hello(pid: u32) -> Hello {
    Hello::new(1, format!("end {pid}"), Epoch::new(pid), "here")
}

#[test]
fn each_end_sees_the_hello_of_the_other() {
    let (first, second) = memory::pair(hello(1), hello(2));
    assert_eq!(first.connection().peer().hello, hello(2));
    assert_eq!(second.connection().peer().hello, hello(1));
    assert_ne!(first.connection().id(), second.connection().id());
}

#[test]
fn nothing_leaves_before_a_flush_and_a_full_peer_leaves_a_backlog() {
    let (first, second) = memory::pair(hello(1), hello(2));
    second.set_capacity(10);
    let frame = Frame::new("{}", "payload");
    assert_eq!(first.connection().queue(&frame).unwrap(), 14);
    assert_eq!(first.connection().queue(&frame).unwrap(), 28);
    assert_eq!(first.connection().written(), Written { position: 0, backlog: 28 });
    assert_eq!(second.receive().unwrap(), None);

    let mut received = Vec::new();
    loop {
        let written = first.connection().flush();
        received.extend(second.receive().unwrap());
        if written.backlog == 0 {
            break;
        }
    }
    received.extend(second.receive().unwrap());
    assert_eq!(received, [frame.clone(), frame]);
    assert_eq!(first.connection().written(), Written { position: 28, backlog: 0 });
}

#[test]
fn what_was_flushed_before_the_close_can_be_received() {
    let (first, second) = memory::pair(hello(1), hello(2));
    first.connection().queue(&Frame::new("{}", "")).unwrap();
    first.connection().close();
    assert!(second.is_closed());
    assert_eq!(second.receive().unwrap(), Some(Frame::new("{}", "")));
    assert_eq!(second.receive().unwrap(), None);
    second.connection().queue(&Frame::new("{}", "")).unwrap();
    assert_eq!(second.connection().flush(), Written { position: 0, backlog: 0 });
    assert_eq!(first.receive().unwrap(), None);
}
