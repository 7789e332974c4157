//! What the two sides say to each other: one enum for each direction, and how it becomes a frame.
//!
//! A frame's header is one flat JSON object: its `type`, its `id`, and the fields of that type. A field that is not known
//! is ignored, so a later version may add some. A type that is not known is [`Request::Unknown`], which the coordinator
//! answers `unsupported`. Tokens travel as decimal text, because many JSON readers round numbers above 2^53. The payload
//! is the outcome's bytes, and nobody between the two ends of a flight looks into it.

use crate::key::Key;
use crate::outcome::{Outcome, OutcomeKind};
use crate::status::StatusReport;
use bytes::Bytes;
use flight_connection::Frame;
use flight_fencing::FencingToken;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The version of this protocol. Two sides of different versions refuse each other in the handshake.
pub const PROTOCOL_VERSION: u32 = 1;

/// A number that a client gives to one thing that it wants. It lives until the coordinator has answered it for good.
pub type RequestId = u64;

/// Who says that it holds a key's lock, for the eyes of people: `status` and the message of who waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claimant {
    /// The codec of the value: a joiner must name the same.
    pub codec: String,
    /// What the leader calls itself.
    pub label: String,
    /// The leader's process id, in its own namespace.
    pub pid: u32,
}

/// What a client says to the coordinator.
///
/// In every variant `id` is the request's number, `key` the key, `token` the flight's token, `claimant` who says so, `over` the flight
/// that the answer to `hold` is about, `age_ms` how long the flight has lasted, in milliseconds.
#[allow(missing_docs, reason = "the fields mean the same in every variant: see above")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// It holds the key lock and wants a token. `over` answers `hold`: see [`Response::Hold`].
    Lead { id: RequestId, key: Key, claimant: Claimant, over: Option<FencingToken> },
    /// It read `go`, and its work runs.
    Began { id: RequestId, token: FencingToken },
    /// The key lock was busy.
    Join { id: RequestId, key: Key, codec: String },
    /// A new connection, and its work still runs (since `age_ms`).
    Reassert {
        id: RequestId,
        key: Key,
        token: FencingToken,
        claimant: Claimant,
        age_ms: u64,
        over: Option<FencingToken>,
    },
    /// Its work ended. Sent again on each new connection until it is acknowledged.
    Land { id: RequestId, key: Key, token: FencingToken, outcome: Outcome },
    /// After the acknowledgement it let go of the key lock.
    Released { id: RequestId, key: Key },
    /// A new connection, and it had joined that flight.
    Rejoin { id: RequestId, key: Key, token: FencingToken },
    /// The caller left before `go`, or a joiner left, or a leader closes or lost its lease.
    Cancel { id: RequestId },
    /// What is in flight?
    Status { id: RequestId },
    /// Are you there?
    Ping { id: RequestId },
    /// A request of a later version.
    Unknown { id: RequestId },
}

/// What the coordinator says to a client.
///
/// In every variant `id` is the request's number, `key` the key, `token` the flight's token,
/// `pid` and `label` say who leads it, `age_ms` how long the flight has lasted, in milliseconds.
#[allow(missing_docs, reason = "the fields mean the same in every variant: see above")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Response {
    /// Run the work now.
    Go { id: RequestId, token: FencingToken },
    /// Another flight is known: say the claim again, with `over` set to that token, if you hold the lock still.
    Hold { id: RequestId, token: FencingToken },
    /// You joined this flight.
    Joined { id: RequestId, token: FencingToken, pid: u32, label: String, age_ms: u64 },
    /// The key lock looks free: try it again.
    Try { id: RequestId },
    /// The flight that you joined ended like this.
    Landed { id: RequestId, token: FencingToken, outcome: Outcome },
    /// The flight that you joined ended without an outcome.
    Interrupted { id: RequestId, token: FencingToken },
    /// The landing reached every joiner.
    Ack { id: RequestId },
    /// The flight is not yours any more.
    Lost { id: RequestId, token: FencingToken },
    /// This coordinator does not know that request.
    Unsupported { id: RequestId },
    /// The request was refused.
    Rejected { id: RequestId, reason: Rejection },
    /// What is in flight.
    Status { id: RequestId, report: StatusReport },
    /// I am here.
    Pong { id: RequestId },
    /// A response of a later version, or one that makes no sense. It answers nothing.
    Unknown,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum Rejection {
    /// The flight's value has another encoding than the joiner reads.
    #[error(
        "the flight's codec is `{leader}` and this call's codec is `{joiner}`: give both the same codec, or another key"
    )]
    Codec {
        /// The codec of the flight.
        leader: String,
        /// The codec of the call.
        joiner: String,
    },
    /// The request does not fit into a frame. Said by the client's own process.
    #[error("the key and the names beside it are longer than a frame may be: use a shorter key")]
    TooLong,
    /// The token was never granted, or to somebody else.
    #[error("the token was not granted to this client")]
    Token,
    /// A reason of a later version.
    #[error("the coordinator gave a reason that this version does not know")]
    #[serde(other)]
    Other,
}

/// A request that cannot be read, although its frame is whole.
#[derive(Debug, thiserror::Error)]
#[error("a message that cannot be read: {0}")]
pub struct Unreadable(String);

/// The header of a frame. Flat, and the same for both directions: one place where a name of a field stands.
#[derive(Serialize, Deserialize, Default)]
struct Header<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    id: u64,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    key: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<FencingToken>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    over: Option<FencingToken>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    codec: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    label: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    age_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<OutcomeKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<Rejection>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<StatusReport>,
}

impl<'a> Header<'a> {
    fn new(kind: &'a str, id: RequestId) -> Self {
        Header { kind: Cow::Borrowed(kind), id, ..Header::default() }
    }

    fn key(mut self, key: &'a Key) -> Self {
        self.key = Some(Cow::Borrowed(key.as_str()));
        self
    }

    fn token(mut self, token: FencingToken) -> Self {
        self.token = Some(token);
        self
    }

    fn over(mut self, over: Option<FencingToken>) -> Self {
        self.over = over;
        self
    }

    fn claimant(mut self, claimant: &'a Claimant) -> Self {
        self.codec = Some(Cow::Borrowed(&claimant.codec));
        self.label = Some(Cow::Borrowed(&claimant.label));
        self.pid = Some(claimant.pid);
        self
    }

    fn frame(self, payload: Bytes) -> Frame {
        let header = serde_json::to_vec(&self).expect("a header is text and numbers: it always encodes");
        Frame { header: header.into(), payload }
    }

    fn parse(frame: &'a Frame) -> Result<Self, Unreadable> {
        serde_json::from_slice(&frame.header).map_err(|error| Unreadable(error.to_string()))
    }

    fn take_key(&self) -> Result<Key, Unreadable> {
        self.key.as_deref().map(Key::from).ok_or_else(|| self.missing("key"))
    }

    fn take_token(&self) -> Result<FencingToken, Unreadable> {
        self.token.ok_or_else(|| self.missing("token"))
    }

    fn take_codec(&self) -> Result<String, Unreadable> {
        self.codec.as_deref().map(String::from).ok_or_else(|| self.missing("codec"))
    }

    fn take_claimant(&self) -> Result<Claimant, Unreadable> {
        Ok(Claimant {
            codec: self.take_codec()?,
            label: self.label.as_deref().map(String::from).unwrap_or_default(),
            pid: self.pid.unwrap_or_default(),
        })
    }

    fn take_outcome(&self, payload: &Bytes) -> Result<Outcome, Unreadable> {
        let kind = self.outcome.ok_or_else(|| self.missing("outcome"))?;
        Ok(Outcome { kind, payload: payload.clone() })
    }

    fn missing(&self, field: &str) -> Unreadable {
        Unreadable(format!("`{}` without `{field}`", self.kind))
    }
}

impl Request {
    /// The id that the request is about.
    pub fn id(&self) -> RequestId {
        match self {
            Request::Lead { id, .. }
            | Request::Began { id, .. }
            | Request::Join { id, .. }
            | Request::Reassert { id, .. }
            | Request::Land { id, .. }
            | Request::Released { id, .. }
            | Request::Rejoin { id, .. }
            | Request::Cancel { id }
            | Request::Status { id }
            | Request::Ping { id }
            | Request::Unknown { id } => *id,
        }
    }

    /// The frame that carries the request.
    pub fn encode(&self) -> Frame {
        let nothing = Bytes::new();
        match self {
            Request::Lead { id, key, claimant, over } => {
                Header::new("lead", *id).key(key).claimant(claimant).over(*over).frame(nothing)
            }
            Request::Began { id, token } => Header::new("began", *id).token(*token).frame(nothing),
            Request::Join { id, key, codec } => {
                let header = Header::new("join", *id).key(key);
                Header { codec: Some(Cow::Borrowed(codec)), ..header }.frame(nothing)
            }
            Request::Reassert { id, key, token, claimant, age_ms, over } => {
                let header = Header::new("reassert", *id).key(key).token(*token).claimant(claimant).over(*over);
                Header { age_ms: Some(*age_ms), ..header }.frame(nothing)
            }
            Request::Land { id, key, token, outcome } => {
                let header = Header::new("land", *id).key(key).token(*token);
                Header { outcome: Some(outcome.kind), ..header }.frame(outcome.payload.clone())
            }
            Request::Released { id, key } => Header::new("released", *id).key(key).frame(nothing),
            Request::Rejoin { id, key, token } => Header::new("rejoin", *id).key(key).token(*token).frame(nothing),
            Request::Cancel { id } => Header::new("cancel", *id).frame(nothing),
            Request::Status { id } => Header::new("status", *id).frame(nothing),
            Request::Ping { id } => Header::new("ping", *id).frame(nothing),
            Request::Unknown { id } => Header::new("unknown", *id).frame(nothing),
        }
    }

    /// Reads a request.
    ///
    /// # Errors
    /// When the header is not a JSON object with a `type` and an `id`, or lacks a field that the type needs.
    pub fn decode(frame: &Frame) -> Result<Self, Unreadable> {
        let header = Header::parse(frame)?;
        let (id, over) = (header.id, header.over);
        Ok(match &*header.kind {
            "lead" => Request::Lead { id, key: header.take_key()?, claimant: header.take_claimant()?, over },
            "began" => Request::Began { id, token: header.take_token()? },
            "join" => Request::Join { id, key: header.take_key()?, codec: header.take_codec()? },
            "reassert" => Request::Reassert {
                id,
                key: header.take_key()?,
                token: header.take_token()?,
                claimant: header.take_claimant()?,
                age_ms: header.age_ms.unwrap_or_default(),
                over,
            },
            "land" => Request::Land {
                id,
                key: header.take_key()?,
                token: header.take_token()?,
                outcome: header.take_outcome(&frame.payload)?,
            },
            "released" => Request::Released { id, key: header.take_key()? },
            "rejoin" => Request::Rejoin { id, key: header.take_key()?, token: header.take_token()? },
            "cancel" => Request::Cancel { id },
            "status" => Request::Status { id },
            "ping" => Request::Ping { id },
            _ => Request::Unknown { id },
        })
    }
}

impl Response {
    /// The frame that carries the response.
    pub fn encode(&self) -> Frame {
        let nothing = Bytes::new();
        match self {
            Response::Go { id, token } => Header::new("go", *id).token(*token).frame(nothing),
            Response::Hold { id, token } => Header::new("hold", *id).token(*token).frame(nothing),
            Response::Joined { id, token, pid, label, age_ms } => {
                let header = Header::new("joined", *id).token(*token);
                Header { pid: Some(*pid), label: Some(Cow::Borrowed(label)), age_ms: Some(*age_ms), ..header }
                    .frame(nothing)
            }
            Response::Try { id } => Header::new("try", *id).frame(nothing),
            Response::Landed { id, token, outcome } => {
                let header = Header::new("landed", *id).token(*token);
                Header { outcome: Some(outcome.kind), ..header }.frame(outcome.payload.clone())
            }
            Response::Interrupted { id, token } => Header::new("interrupted", *id).token(*token).frame(nothing),
            Response::Ack { id } => Header::new("ack", *id).frame(nothing),
            Response::Lost { id, token } => Header::new("lost", *id).token(*token).frame(nothing),
            Response::Unsupported { id } => Header::new("unsupported", *id).frame(nothing),
            Response::Rejected { id, reason } => {
                Header { reason: Some(reason.clone()), ..Header::new("rejected", *id) }.frame(nothing)
            }
            Response::Status { id, report } => {
                Header { status: Some(report.clone()), ..Header::new("status", *id) }.frame(nothing)
            }
            Response::Pong { id } => Header::new("pong", *id).frame(nothing),
            Response::Unknown => Header::new("unknown", 0).frame(nothing),
        }
    }

    /// Reads a response. One of a type that is not known is [`Response::Unknown`]: it answers nothing.
    ///
    /// # Errors
    /// When the header is not a JSON object with a `type` and an `id`, or lacks a field that the type needs.
    pub fn decode(frame: &Frame) -> Result<Self, Unreadable> {
        let header = Header::parse(frame)?;
        let id = header.id;
        Ok(match &*header.kind {
            "go" => Response::Go { id, token: header.take_token()? },
            "hold" => Response::Hold { id, token: header.take_token()? },
            "joined" => Response::Joined {
                id,
                token: header.take_token()?,
                pid: header.pid.unwrap_or_default(),
                label: header.label.as_deref().map(String::from).unwrap_or_default(),
                age_ms: header.age_ms.unwrap_or_default(),
            },
            "try" => Response::Try { id },
            "landed" => {
                Response::Landed { id, token: header.take_token()?, outcome: header.take_outcome(&frame.payload)? }
            }
            "interrupted" => Response::Interrupted { id, token: header.take_token()? },
            "ack" => Response::Ack { id },
            "lost" => Response::Lost { id, token: header.take_token()? },
            "unsupported" => Response::Unsupported { id },
            "rejected" => Response::Rejected { id, reason: header.reason.unwrap_or(Rejection::Other) },
            "status" => {
                Response::Status { id, report: header.status.ok_or(Unreadable("`status` without a report".into()))? }
            }
            "pong" => Response::Pong { id },
            _ => Response::Unknown,
        })
    }
}

#[cfg(test)]
mod tests;
