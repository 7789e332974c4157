use flight_fencing::{DecimalFault, Epoch, FencingToken};
use proptest::prelude::*;

#[track_caller]
fn refused(text: &str) -> DecimalFault {
    let of_token = text.parse::<FencingToken>().expect_err("not a token");
    let of_epoch = text.parse::<Epoch>().expect_err("not an epoch");
    assert!(of_token.to_string().contains("is not a fencing token"), "{of_token}");
    assert!(of_epoch.to_string().contains("is not an epoch"), "{of_epoch}");
    of_token.fault().clone()
}

#[test]
fn what_a_crash_or_a_careless_hand_leaves_in_a_file_is_refused() {
    let not_a_digit = |found, at| DecimalFault::NotADigit { found, at };
    assert_eq!(refused(""), DecimalFault::Empty);
    assert_eq!(refused("\0\0\0\0\0\0\0\0"), not_a_digit('\0', 0));
    assert_eq!(refused("12\n12"), not_a_digit('\n', 2));
    assert_eq!(refused("12\n"), not_a_digit('\n', 2));
    assert_eq!(refused(" 12"), not_a_digit(' ', 0));
    assert_eq!(refused("-1"), not_a_digit('-', 0));
    assert_eq!(refused("+1"), not_a_digit('+', 0));
    assert_eq!(refused("0x10"), not_a_digit('x', 1));
    assert_eq!(refused("1_000"), not_a_digit('_', 1));
    assert_eq!(refused("1e3"), not_a_digit('e', 1));
    // Digits, but not ASCII ones.
    assert_eq!(refused("1٣"), not_a_digit('٣', 1));
    assert_eq!(refused("00"), DecimalFault::LeadingZero);
    assert_eq!(refused("012"), DecimalFault::LeadingZero);
    assert_eq!(refused(&"9".repeat(40)), DecimalFault::TooLarge { max: u64::MAX });
}

#[test]
fn the_limits_are_read_and_one_more_is_not() {
    assert_eq!("0".parse(), Ok(FencingToken::from_u64(0)));
    assert_eq!("18446744073709551615".parse(), Ok(FencingToken::from_u64(u64::MAX)));
    assert!("18446744073709551616".parse::<FencingToken>().is_err());
    assert_eq!("0".parse(), Ok(Epoch::MIN));
    assert_eq!("4294967295".parse(), Ok(Epoch::MAX));
    let past = "4294967296".parse::<Epoch>().expect_err("one too many");
    assert_eq!(
        past.to_string(),
        r#""4294967296" is not an epoch: it is greater than 4294967295, the greatest possible"#,
    );
}

#[test]
fn the_message_shows_a_long_binary_text_short_and_escaped() {
    let garbage = "\u{1b}[2J\r\n\0".repeat(10_000);
    let message = garbage.parse::<FencingToken>().expect_err("garbage").to_string();
    assert!(message.len() < 400, "{} bytes", message.len());
    assert!(!message.chars().any(char::is_control), "{message:?}");
    assert!(message.contains("bytes more"), "{message}");
}

#[test]
fn width_and_fill_are_respected() {
    let token = FencingToken::new(Epoch::MIN, 42);
    assert_eq!(format!("{token:>6}|{:<4}|", Epoch::new(7)), "    42|7   |");
}

proptest! {
    #[test]
    fn texts_come_back(number: u64, epoch: u32) {
        let token = FencingToken::from_u64(number);
        prop_assert_eq!(token.to_string().parse(), Ok(token));
        prop_assert_eq!(token.to_string(), number.to_string());
        prop_assert_eq!(Epoch::new(epoch).to_string().parse(), Ok(Epoch::new(epoch)));
    }

    #[test]
    fn only_the_one_text_of_a_number_is_read(text in "[-+ 0-9]{0,22}|\\PC{0,8}") {
        if let Ok(token) = text.parse::<FencingToken>() {
            prop_assert_eq!(token.to_string(), text);
        }
    }
}
