//! What travels, and what a later version may add.

use super::*;
use flight_fencing::Epoch;

fn token(counter: u32) -> FencingToken {
    FencingToken::new(Epoch::new(7), counter)
}

#[test]
fn requests_survive_the_wire() {
    let claimant = Claimant { codec: "serde_json".into(), label: "make".into(), pid: 42 };
    let key = Key::from("é\n\u{0}");
    for request in [
        Request::Lead { id: 1, key: key.clone(), claimant: claimant.clone(), over: Some(token(3)) },
        Request::Began { id: 1, token: token(1) },
        Request::Join { id: 2, key: key.clone(), codec: "serde_json".into() },
        Request::Reassert { id: 3, key: key.clone(), token: token(1), claimant, age_ms: 5, over: None },
        Request::Land { id: u64::MAX, key: key.clone(), token: token(1), outcome: Outcome::value(&b"\n\n{"[..]) },
        Request::Released { id: 4, key: key.clone() },
        Request::Rejoin { id: 5, key, token: token(9) },
        Request::Cancel { id: 6 },
        Request::Status { id: 7 },
        Request::Ping { id: 8 },
    ] {
        assert_eq!(Request::decode(&request.encode()).expect("it was just encoded"), request);
    }
}

#[test]
fn responses_survive_the_wire() {
    for response in [
        Response::Go { id: 1, token: token(1) },
        Response::Hold { id: 1, token: token(1) },
        Response::Joined { id: 1, token: token(1), pid: 2, label: "x".into(), age_ms: 3 },
        Response::Try { id: 1 },
        Response::Landed { id: 1, token: token(1), outcome: Outcome::value(Bytes::new()) },
        Response::Interrupted { id: 1, token: token(1) },
        Response::Ack { id: 1 },
        Response::Lost { id: 1, token: token(1) },
        Response::Unsupported { id: 1 },
        Response::Rejected { id: 1, reason: Rejection::Codec { leader: "a".into(), joiner: "b".into() } },
        Response::Pong { id: 1 },
    ] {
        assert_eq!(Response::decode(&response.encode()).expect("it was just encoded"), response);
    }
}

#[test]
fn a_later_version_may_add_fields_types_and_reasons() {
    let frame = |text: &'static str| Frame { header: Bytes::from_static(text.as_bytes()), payload: Bytes::new() };
    let request = Request::decode(&frame(r#"{"type":"cancel","id":3,"colour":"blue"}"#));
    assert_eq!(request.expect("an unknown field is ignored"), Request::Cancel { id: 3 });
    let request = Request::decode(&frame(r#"{"type":"hover","id":3}"#));
    assert_eq!(request.expect("an unknown type is told apart"), Request::Unknown { id: 3 });
    let response = Response::decode(&frame(r#"{"type":"rejected","id":3,"reason":{"why":"weather"}}"#));
    assert_eq!(response.expect("an unknown reason is one"), Response::Rejected { id: 3, reason: Rejection::Other });
}

#[test]
fn tokens_travel_as_text() {
    let frame = Request::Began { id: 1, token: token(1) }.encode();
    assert_eq!(frame.header, r#"{"type":"began","id":1,"token":"30064771073"}"#.as_bytes());
}
