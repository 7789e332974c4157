//! Values that cross as bytes.

use std::error::Error;
use std::io;

use single_flight::codec::Bytes;
use single_flight::{Codec, Failure, Options, Rejection, RunError, SingleFlight};

use crate::{hold, hold_with, join, joiner, open, soon};

/// Numbers as text. It adds one when it encodes, so that one sees whose value went through it.
struct Text;

impl Codec<u32> for Text {
    fn name(&self) -> &'static str {
        "text"
    }

    fn encode(&self, value: &u32) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        if *value == 13 { Err("no thirteen".into()) } else { Ok((value + 1).to_string().into_bytes()) }
    }

    fn decode(&self, bytes: &[u8]) -> Result<u32, Box<dyn Error + Send + Sync>> {
        let number: u32 = str::from_utf8(bytes)?.parse()?;
        if number == 43 { Err("no forty-three".into()) } else { Ok(number) }
    }
}

#[tokio::test]
async fn leader_and_joiner_get_what_the_codec_makes_of_the_value() {
    let (_home, flights) = open::<()>();
    let flights = flights.with_codec(Text);
    let leader = hold(&flights, "k", 7).await;
    let (joined, _) = join(joiner(&flights, "k")).await;
    leader.end.send(()).unwrap();
    assert_eq!((soon(leader.call).await.unwrap().value, soon(joined).await.unwrap().value), (8, 8));
}

#[tokio::test]
async fn a_key_whose_leader_names_another_codec_is_refused() {
    let (_home, json) = open::<u32>();
    let bytes = json.with_codec(Bytes);
    let leader = hold(&json, "k", 7).await;
    let error = soon(joiner(&bytes, "k").start()).await.unwrap_err();
    let RunError::Rejected { reason: Rejection::Codec { leader: theirs, joiner: ours }, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!((theirs.as_str(), ours.as_str()), ("serde_json", "bytes"));
    assert!(error.to_string().contains("serde_json") && error.to_string().contains("bytes"), "{error}");
    leader.end.send(()).unwrap();
    assert_eq!(soon(leader.call).await.unwrap().value, 7);
    // The key is nobody's any more.
    let flight = bytes.run("k", |_| async { Ok::<_, io::Error>(vec![0, 255]) }).await.unwrap();
    assert_eq!(flight.value, [0, 255]);
}

#[tokio::test]
async fn a_value_that_cannot_be_encoded_fails_the_flight_for_all() {
    let (_home, flights) = open::<()>();
    let flights = flights.with_codec(Text);
    let leader = hold(&flights, "k", 13).await;
    let (joined, _) = join(joiner(&flights, "k")).await;
    leader.end.send(()).unwrap();
    let error = soon(leader.call).await.unwrap_err();
    assert!(matches!(&error, RunError::Encode { token, .. } if *token == leader.token), "{error:?}");
    let error = soon(joined).await.unwrap_err();
    let RunError::Failed { failure, token, .. } = &error else { panic!("{error:?}") };
    assert_eq!((failure.name.as_str(), failure.message.as_str()), (Failure::ENCODE, "no thirteen"));
    assert_eq!(*token, leader.token);
}

/// Reads what `Text` writes, in another way.
struct Lenient;

impl Codec<String> for Lenient {
    fn name(&self) -> &'static str {
        "text"
    }

    fn encode(&self, value: &String) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        Ok(value.clone().into_bytes())
    }

    fn decode(&self, bytes: &[u8]) -> Result<String, Box<dyn Error + Send + Sync>> {
        Ok(String::from_utf8(bytes.to_vec())?)
    }
}

#[tokio::test]
async fn a_value_that_one_caller_cannot_decode_fails_that_call_only() {
    let (_home, flights) = open::<()>();
    let (strict, lenient) = (flights.with_codec(Text), flights.with_codec(Lenient));
    let leader = hold(&strict, "k", 42).await;
    let (cannot, _) = join(joiner(&strict, "k")).await;
    let (can, _) = join(joiner(&lenient, "k")).await;
    leader.end.send(()).unwrap();
    assert!(matches!(soon(leader.call).await, Err(RunError::Decode { .. })));
    assert!(matches!(soon(cannot).await, Err(RunError::Decode { .. })));
    assert_eq!(soon(can).await.unwrap().value, "43");
}

#[tokio::test]
async fn a_value_longer_than_a_frame_fails_the_flight_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let options = Options::new().max_frame(1 << 20);
    let flights = SingleFlight::<()>::open_with(home.path(), options).unwrap().with_codec(Bytes);
    let leader = hold_with(&flights, "k", async |_| Ok::<_, io::Error>(vec![0; 2 << 20])).await;
    let (joined, _) = join(joiner(&flights, "k")).await;
    leader.end.send(()).unwrap();
    let error = soon(leader.call).await.unwrap_err();
    let RunError::TooLarge { length, limit, .. } = &error else { panic!("{error:?}") };
    assert!(*length == 2 << 20 && *limit < 1 << 20, "{error}");
    let error = soon(joined).await.unwrap_err();
    assert!(matches!(&error, RunError::Failed { failure, .. } if failure.name == Failure::TOO_LARGE), "{error:?}");
    // A value that just fits does.
    let just = *limit;
    let flight = flights.run("k", move |_| async move { Ok::<_, io::Error>(vec![1; just]) }).await.unwrap();
    assert_eq!(flight.value.len(), just);
}
