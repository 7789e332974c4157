use flight_fencing::{CounterSpent, Epoch, EpochsSpent, FencingToken, TokenSource};
use proptest::prelude::*;

#[test]
fn the_successor_of_the_last_epoch_is_refused_with_a_reason() {
    assert_eq!(Epoch::new(u32::MAX - 1).next(), Ok(Epoch::MAX));
    let spent: EpochsSpent = Epoch::MAX.next().expect_err("there is no epoch after the last");
    let message = spent.to_string();
    assert!(message.contains("4294967295"), "{message}");
    assert!(message.contains("reset every fence"), "{message}");
}

#[test]
fn a_source_counts_from_one_within_its_epoch() {
    let mut tokens = TokenSource::new(Epoch::new(9));
    let minted: Vec<_> = (0..3).map(|_| tokens.mint().expect("fresh")).collect();
    assert_eq!(minted, [1, 2, 3].map(|counter| FencingToken::new(Epoch::new(9), counter)),);
    assert_eq!(tokens.epoch(), Epoch::new(9));
}

#[test]
fn a_spent_counter_is_an_error_that_stays_and_never_spills_into_the_next_epoch() {
    let last_but_one = FencingToken::new(Epoch::new(5), u32::MAX - 1);
    let mut tokens = TokenSource::starting_after(last_but_one);
    assert_eq!(tokens.mint(), Ok(FencingToken::new(Epoch::new(5), u32::MAX)));
    for _ in 0..3 {
        let spent: CounterSpent = tokens.mint().expect_err("the counter is spent");
        assert_eq!(spent.epoch, Epoch::new(5));
        assert!(spent.to_string().contains("epoch 5"), "{spent}");
        assert_eq!(tokens.epoch(), Epoch::new(5));
    }
}

#[test]
fn debug_shows_both_halves() {
    let token = FencingToken::new(Epoch::new(3), 7);
    assert_eq!(format!("{token:?}"), "FencingToken { epoch: 3, counter: 7 }");
}

#[test]
fn constants_can_be_made_at_compile_time() {
    const EPOCH: Epoch = match Epoch::new(1).next() {
        Ok(epoch) => epoch,
        Err(_) => panic!("1 has a successor"),
    };
    const TOKEN: FencingToken = FencingToken::new(EPOCH, 5);
    assert_eq!(TOKEN.as_u64(), (2 << 32) + 5);
}

proptest! {
    #[test]
    fn the_halves_come_back(epoch: u32, counter: u32) {
        let token = FencingToken::new(Epoch::new(epoch), counter);
        prop_assert_eq!((token.epoch().get(), token.counter()), (epoch, counter));
        prop_assert_eq!(FencingToken::from_u64(token.as_u64()), token);
    }

    #[test]
    fn tokens_are_ordered_by_epoch_and_then_by_counter(a: (u32, u32), b: (u32, u32), same_epoch: bool) {
        let b = if same_epoch { (a.0, b.1) } else { b };
        let token = |(epoch, counter)| FencingToken::new(Epoch::new(epoch), counter);
        prop_assert_eq!(token(a).cmp(&token(b)), a.cmp(&b));
        prop_assert_eq!(token(a).as_u64().cmp(&token(b).as_u64()), a.cmp(&b));
    }

    #[test]
    fn a_newer_term_outranks_all_of_an_older_one(epoch in 0..u32::MAX, old_counter: u32) {
        let old = FencingToken::new(Epoch::new(epoch), old_counter);
        let mut newer = TokenSource::new(Epoch::new(epoch).next().expect("below the last"));
        prop_assert!(newer.mint().expect("fresh") > old);
    }

    #[test]
    fn minted_tokens_strictly_grow(start: u64, count in 1..50_usize) {
        let start = FencingToken::from_u64(start);
        let mut tokens = TokenSource::starting_after(start);
        let mut last = start;
        for _ in 0..count {
            let Ok(token) = tokens.mint() else { break };
            prop_assert!(token > last);
            prop_assert_eq!(token.epoch(), start.epoch());
            last = token;
        }
    }
}
