use std::error::Error;
use std::io;

use flight_lease::{LeaseController, LeaseLost};

use crate::{lease, token};

#[test]
fn check_names_the_subject_and_the_token_and_what_to_do() {
    let (controller, lease) = lease();
    controller.lose();
    let lost = lease.check().expect_err("lost");
    assert_eq!((lost.subject(), lost.token()), ("report", token()));
    assert_eq!(
        lost.to_string(),
        "the lease of \"report\" with fencing token 12884901895 was lost: another may work on it now; stop, and write nothing \
         more with this token",
    );
    assert!(lost.source().is_none());
    assert!(lost.into_source().is_none());
}

#[test]
fn the_works_own_error_comes_back_whole() {
    let own = io::Error::from(io::ErrorKind::StorageFull);
    let lost = LeaseLost::new("report", token()).with_source(own);
    let seen = lost.source().and_then(|source| source.downcast_ref::<io::Error>());
    assert_eq!(seen.map(io::Error::kind), Some(io::ErrorKind::StorageFull));
    let own = lost.into_source().expect("it was given one").downcast::<io::Error>();
    assert_eq!(own.expect("its own type").kind(), io::ErrorKind::StorageFull);
}

#[test]
fn a_text_is_an_error_too() {
    let lost = LeaseLost::new("report", token()).with_source("disk full");
    assert_eq!(lost.source().expect("given").to_string(), "disk full");
}

#[test]
fn it_passes_as_a_boxed_error_between_threads() {
    let boxed: Box<dyn Error + Send + Sync> = LeaseLost::new("report", token()).into();
    assert!(boxed.downcast::<LeaseLost>().is_ok());
}

#[test]
fn a_huge_or_hostile_subject_stays_whole_in_the_field_and_short_in_the_message() {
    let subject = "é\n\u{1b}[2J".repeat(100_000);
    let (controller, lease) = LeaseController::new(subject.as_str(), token());
    controller.lose();
    let lost = lease.check().expect_err("lost");
    assert_eq!(lost.subject(), subject);
    let message = lost.to_string();
    assert!(message.len() < 1_000, "{} bytes", message.len());
    assert!(!message.chars().any(char::is_control), "{message:?}");
    assert!(message.contains("bytes more"), "{message}");
}

#[test]
fn the_empty_subject_is_one_like_any_other() {
    let (controller, lease) = LeaseController::new("", token());
    controller.lose();
    assert!(lease.check().expect_err("lost").to_string().contains(r#"the lease of """#));
}
