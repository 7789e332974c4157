//! Frames survive any cutting; garbage costs nothing but its connection.

use bytes::BytesMut;
use flight_connection::{CodecError, Frame, FrameCodec, FrameDecoder, FrameError, FrameFault};
use proptest::prelude::*;
use tokio_util::codec::{Decoder, Encoder};

const LIMIT: usize = 1 << 20;

fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let header =
        prop::collection::vec(any::<u8>().prop_filter("a header has no line feed", |byte| *byte != b'\n'), 0..60);
    let payload = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        (0_usize..200_000).prop_map(|length| vec![b'\n'; length]),
    ];
    prop::collection::vec((header, payload).prop_map(|(header, payload)| Frame::new(header, payload)), 0..8)
}

fn encode(frames: &[Frame]) -> BytesMut {
    let (mut codec, mut wire) = (FrameCodec::new(LIMIT), BytesMut::new());
    for frame in frames {
        codec.encode(frame.clone(), &mut wire).unwrap();
    }
    wire
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_cutting_gives_the_same_frames(
        frames in frames(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let wire = encode(&frames);
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(wire.len() + 1)).chain([0, wire.len()]).collect();
        at.sort_unstable();

        let (mut decoder, mut decoded) = (FrameDecoder::new(LIMIT), Vec::new());
        let (mut codec, mut source, mut by_codec) = (FrameCodec::new(LIMIT), BytesMut::new(), Vec::new());
        for piece in at.windows(2).map(|ends| &wire[ends[0]..ends[1]]) {
            let mut input = piece;
            while let Some(frame) = decoder.decode(&mut input).unwrap() {
                decoded.push(frame);
            }
            source.extend_from_slice(piece);
            while let Some(frame) = codec.decode(&mut source).unwrap() {
                by_codec.push(frame);
            }
        }
        prop_assert_eq!(&decoded, &frames);
        prop_assert_eq!(&by_codec, &frames);
        prop_assert!(decoder.is_between_frames());
    }

    #[test]
    fn garbage_never_panics_and_both_decoders_agree_on_it(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut input = &bytes[..];
        let (mut decoder, mut codec, mut source) = (FrameDecoder::new(40), FrameCodec::new(40), BytesMut::from(&bytes[..]));
        loop {
            let one = decoder.decode(&mut input);
            let other = codec.decode(&mut source).map_err(|error| match error {
                CodecError::Frame(error) => error,
                other => panic!("nothing was read or written: {other}"),
            });
            prop_assert_eq!(&one, &other);
            if !matches!(one, Ok(Some(_))) {
                break;
            }
        }
    }
}

#[test]
fn one_byte_at_a_time() {
    let frames = [Frame::new("{}", ""), Frame::new("{\"a\":1}", "\n\n"), Frame::new("", vec![7; 10_000])];
    let mut decoder = FrameDecoder::new(LIMIT);
    let mut decoded = Vec::new();
    for byte in encode(&frames) {
        decoded.extend(decoder.decode(&mut &[byte][..]).unwrap());
    }
    assert_eq!(decoded, frames);
}

#[test]
fn what_is_no_frame_is_told_as_soon_as_it_is_known() {
    let decode = |bytes: &[u8]| FrameDecoder::new(1_000).decode(&mut &bytes[..]);
    assert_eq!(decode(&[0, 0, 0, 0]), Err(FrameError::Malformed { fault: FrameFault::Empty }));
    // Four bytes are enough to refuse; no more is read, and nothing is reserved.
    assert_eq!(decode(&[0xff; 4]), Err(FrameError::TooLong { length: 0xffff_ffff, limit: 1_000 }));
    assert_eq!(decode(&[0, 0, 3, 0xe9]), Err(FrameError::TooLong { length: 1_001, limit: 1_000 }));
    assert_eq!(decode(&[0, 0, 3, 0xe8]), Ok(None));
    assert_eq!(decode(b"\0\0\0\x02{}"), Err(FrameError::Malformed { fault: FrameFault::NoLineFeed }));
}

#[test]
fn a_frame_that_is_too_long_is_refused_by_its_sender() {
    let mut wire = BytesMut::new();
    let long = Frame::new("{}", vec![0; 1_000]);
    let refused = FrameCodec::new(1_000).encode(long, &mut wire);
    assert!(matches!(refused, Err(CodecError::Frame(FrameError::TooLong { length: 1_003, limit: 1_000 }))));
    assert!(wire.is_empty());
}
