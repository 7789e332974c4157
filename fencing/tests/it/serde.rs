use flight_fencing::{Epoch, FencingToken};
use serde_json::{from_str, to_string};

/// The first integer that a floating-point JSON reader cannot tell from its neighbour.
const PAST_DOUBLE: u64 = (1 << 53) + 1;

#[test]
fn a_token_travels_as_a_decimal_string_and_keeps_every_digit() {
    for number in [0, 1, PAST_DOUBLE, u64::MAX] {
        let token = FencingToken::from_u64(number);
        let text = to_string(&token).expect("encodes");
        assert_eq!(text, format!("\"{number}\""));
        assert_eq!(from_str::<FencingToken>(&text).expect("decodes"), token);
    }
}

#[test]
fn a_token_that_comes_as_a_number_is_refused() {
    let error = from_str::<FencingToken>("7").expect_err("a number");
    assert!(error.to_string().contains("as a decimal string"), "{error}");
}

#[test]
fn a_token_text_that_is_not_canonical_is_refused_with_the_text() {
    for text in ["", "07", "+7", " 7", "7 ", "18446744073709551616", "seven"] {
        let error = from_str::<FencingToken>(&format!("\"{text}\"")).expect_err(text);
        assert!(error.to_string().contains(&format!("{text:?} is not a fencing token")), "{error}");
    }
}

#[test]
fn an_escaped_text_is_read_like_any_other() {
    // Escapes make the decoder hand over an owned text and not a borrowed one.
    let token = from_str::<FencingToken>(r#""\u0031\u0032""#).expect("decodes");
    assert_eq!(token, FencingToken::from_u64(12));
}

#[test]
fn an_epoch_travels_as_a_number_within_its_range() {
    assert_eq!(to_string(&Epoch::MAX).expect("encodes"), "4294967295");
    assert_eq!(from_str::<Epoch>("4294967295").expect("decodes"), Epoch::MAX);
    for wrong in ["4294967296", "-1", "1.5", "\"1\"", "null"] {
        assert!(from_str::<Epoch>(wrong).is_err(), "{wrong}");
    }
}
