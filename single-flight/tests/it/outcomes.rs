//! How a work can end, for its own caller and for those who joined.

use std::io;

use single_flight::{Failure, RunError};

use crate::{hold_with, join, joiner, open, soon};

#[derive(Debug, thiserror::Error)]
#[error("could not build")]
struct BuildError(#[source] io::Error);

#[tokio::test]
async fn the_leader_gets_its_own_error_back_and_joiners_get_its_text() {
    let (_home, flights) = open::<u32>();
    let leader = hold_with(&flights, "k", async |_| Err::<u32, _>(BuildError(io::Error::from_raw_os_error(28)))).await;
    let (joined, _) = join(joiner(&flights, "k")).await;
    leader.end.send(()).unwrap();
    let error = soon(leader.call).await.unwrap_err();
    let RunError::Work { source, token, .. } = error else { panic!("{error:?}") };
    assert_eq!(source.downcast_ref::<BuildError>().unwrap().0.raw_os_error(), Some(28));
    assert_eq!(token, leader.token);
    let error = soon(joined).await.unwrap_err();
    let RunError::Failed { failure, .. } = &error else { panic!("{error:?}") };
    assert_eq!(
        (failure.name.as_str(), failure.message.as_str(), failure.code),
        (Failure::ERROR, "could not build", Some(28))
    );
    assert_eq!(failure.causes.len(), 1);
    assert!(error.to_string().contains("could not build"), "{error}");
}

#[tokio::test]
async fn text_is_an_error_too() {
    let (_home, flights) = open::<u32>();
    let error = flights.run("k", |_| async { Err("no luck") }).await.unwrap_err();
    assert!(error.to_string().contains("no luck"), "{error}");
}

#[tokio::test]
async fn a_panic_comes_back_to_the_leader_and_is_told_to_joiners() {
    let (_home, flights) = open::<u32>();
    let leader =
        hold_with(&flights, "k", async |_| -> io::Result<u32> { panic!("process {}", std::process::id()) }).await;
    let (joined, _) = join(joiner(&flights, "k")).await;
    leader.end.send(()).unwrap();
    let panic = soon(tokio::spawn(leader.call)).await.unwrap_err().into_panic();
    let text = format!("process {}", std::process::id());
    assert_eq!(*panic.downcast_ref::<String>().unwrap(), text);
    let error = soon(joined).await.unwrap_err();
    assert!(
        matches!(&error, RunError::Failed { failure, .. } if failure.name == Failure::PANIC && failure.message == text),
        "{error:?}"
    );
    // The key is free.
    let next = flights.run("k", |_| async { Ok::<_, io::Error>(1) }).await.unwrap();
    assert!(next.token > leader.token);
}

#[tokio::test]
async fn a_panic_that_is_not_text_comes_back_as_it_was() {
    let (_home, flights) = open::<u32>();
    let leader =
        hold_with(&flights, "k", async |_| -> io::Result<u32> { std::panic::panic_any(vec![1_u8, 2, 3]) }).await;
    let (joined, _) = join(joiner(&flights, "k")).await;
    leader.end.send(()).unwrap();
    let panic = soon(tokio::spawn(leader.call)).await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<Vec<u8>>().unwrap(), &[1, 2, 3]);
    let error = soon(joined).await.unwrap_err();
    assert!(
        matches!(&error, RunError::Failed { failure, .. } if failure.name == Failure::PANIC && failure.message.contains("not text")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_panic_before_the_works_future_exists_is_a_panic_like_any_other() {
    let (_home, flights) = open::<u32>();
    let run = flights.run("k", |_| -> std::future::Ready<io::Result<u32>> { panic!("early") });
    let panic = soon(tokio::spawn(run.start())).await.unwrap_err().into_panic();
    assert_eq!(*panic.downcast_ref::<&str>().unwrap(), "early");
    assert_eq!(flights.run("k", |_| async { Ok::<_, io::Error>(1) }).await.unwrap().value, 1);
}

#[tokio::test]
async fn a_work_whose_runtime_is_gone_lands_aborted() {
    let (_home, flights) = open::<u32>();
    let elsewhere = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let theirs = flights.clone();
    let leader = elsewhere.spawn(async move { hold_with(&theirs, "k", async |_| Ok::<u32, io::Error>(1)).await });
    let leader = soon(leader).await.unwrap();
    let (joined, _) = join(joiner(&flights, "k")).await;
    elsewhere.shutdown_background();
    let error = soon(joined).await.unwrap_err();
    assert!(matches!(&error, RunError::Failed { failure, .. } if failure.name == Failure::ABORTED), "{error:?}");
    let error = soon(leader.call).await.unwrap_err();
    assert!(matches!(&error, RunError::Failed { failure, .. } if failure.name == Failure::ABORTED), "{error:?}");
    assert_eq!(flights.run("k", |_| async { Ok::<_, io::Error>(1) }).await.unwrap().value, 1, "the key is free");
}

#[tokio::test]
async fn a_call_whose_runtime_was_gone_before_its_work_began_lands_aborted() {
    let (home, flights) = open::<u32>();
    let held = crate::key_locks(&home).look(b"k").unwrap().unwrap();
    let elsewhere = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let call = {
        let _entered = elsewhere.enter();
        flights.run("k", |_| async { Ok::<u32, io::Error>(1) }).start()
    };
    crate::until(|| crate::is_waited_for(&flights, "k")).await;
    elsewhere.shutdown_background();
    held.unlock().unwrap();
    let error = soon(call).await.unwrap_err();
    assert!(matches!(&error, RunError::Failed { failure, .. } if failure.name == Failure::ABORTED), "{error:?}");
}
