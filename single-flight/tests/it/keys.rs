//! Any text is a key.

use std::io;

use crate::{open, soon};

#[tokio::test]
async fn any_text_is_a_key_and_equal_text_only_is_the_same() {
    let (_home, flights) = open::<usize>();
    let long = "x".repeat(1 << 20);
    let other = format!("{}y", &long[1..]);
    // Composed and decomposed, with NUL and newline, like paths, and the empty one.
    let keys = ["", "\0", "a\0b", "a\nb", "a\\nb", "../../etc/passwd", "é", "e\u{301}", "K", "k", "🛫", &long, &other];
    let mut calls = Vec::new();
    let mut ends = Vec::new();
    for (number, key) in keys.into_iter().enumerate() {
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let run = flights.run(key, move |lease| async move {
            drop(ended.await);
            assert!(lease.check().is_ok());
            Ok::<_, io::Error>(number)
        });
        calls.push(run.start());
        ends.push(end);
    }
    // All at once: none of them is another one's.
    drop(ends);
    for (number, call) in calls.into_iter().enumerate() {
        let flight = soon(call).await.unwrap();
        assert_eq!((flight.value, flight.joined), (number, false));
    }
}

#[tokio::test]
async fn an_error_shows_a_key_on_one_line() {
    let (_home, flights) = open::<usize>();
    let error = flights.run("a\nb", |_| async { Err("no") }).await.unwrap_err();
    assert!(!error.to_string().contains('\n'), "{error}");
}
