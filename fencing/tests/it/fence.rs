use std::sync::Barrier;
use std::thread;

use flight_fencing::{Epoch, Fence, FencingToken, Stale};
use proptest::prelude::*;

fn token(number: u64) -> FencingToken {
    FencingToken::from_u64(number)
}

#[test]
fn an_empty_fence_admits_anyone_and_knows_no_highest() {
    let fence = Fence::new();
    assert_eq!(fence.highest(), None);
    assert_eq!(fence.admit(token(0)), Ok(()));
    assert_eq!(fence.highest(), None);
    assert_eq!(fence.admit(token(1)), Ok(()));
    assert_eq!(fence.highest(), Some(token(1)));
    assert!(fence.admit(token(0)).is_err());
}

#[test]
fn the_same_holder_writes_as_often_as_it_likes() {
    let fence = Fence::starting_at(token(5));
    for _ in 0..3 {
        assert_eq!(fence.admit(token(5)), Ok(()));
    }
}

#[test]
fn a_fence_that_was_restored_refuses_what_came_before() {
    let fence = Fence::starting_at(FencingToken::new(Epoch::new(2), 1));
    let stale: Stale = fence.admit(FencingToken::new(Epoch::new(1), u32::MAX)).expect_err("of an older term");
    assert_eq!(stale.highest, FencingToken::new(Epoch::new(2), 1));
    let message = stale.to_string();
    assert!(message.contains(&stale.presented.to_string()), "{message}");
    assert!(message.contains(&stale.highest.to_string()), "{message}");
}

#[test]
fn threads_that_race_never_lower_the_fence_and_the_greatest_always_passes() {
    const THREADS: u64 = 4;
    const STEPS: u64 = 20_000;
    let fence = Fence::new();
    let start = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (fence, start) = (&fence, &start);
            scope.spawn(move || {
                start.wait();
                let mut seen = None;
                // The threads' tokens interleave: 1, 5, 9 … against 2, 6, 10 …
                for step in 0..STEPS {
                    let mine = token(step * THREADS + thread + 1);
                    match fence.admit(mine) {
                        Ok(()) => assert!(fence.highest() >= Some(mine)),
                        Err(stale) => {
                            assert_eq!(stale.presented, mine);
                            assert!(stale.highest > mine);
                        }
                    }
                    let now = fence.highest();
                    assert!(now >= seen, "the fence went down from {seen:?} to {now:?}");
                    seen = now;
                }
                if thread == THREADS - 1 {
                    // It had the greatest token of all: nobody could have refused it.
                    assert_eq!(fence.admit(token(STEPS * THREADS)), Ok(()));
                }
            });
        }
    });
    assert_eq!(fence.highest(), Some(token(STEPS * THREADS)));
}

#[test]
fn of_two_that_come_at_once_the_lower_is_never_admitted_last() {
    // Each admission is logged under the resource's lock, as the docs ask for; so the log must never go down.
    let fence = Fence::new();
    let log = std::sync::Mutex::new(Vec::new());
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (fence, log) = (&fence, &log);
            scope.spawn(move || {
                for step in 0..2_000 {
                    let mine = token(step * 4 + thread + 1);
                    let mut log = log.lock().expect("no thread panicked");
                    if fence.admit(mine).is_ok() {
                        log.push(mine);
                    }
                }
            });
        }
    });
    let log = log.into_inner().expect("no thread panicked");
    assert!(log.is_sorted());
    assert_eq!(log.last(), Some(&token(8_000)));
}

#[test]
fn debug_tells_the_highest() {
    assert_eq!(format!("{:?}", Fence::default()), "Fence { highest: None }");
    assert_eq!(
        format!("{:?}", Fence::starting_at(token(3))),
        "Fence { highest: Some(FencingToken { epoch: 0, counter: 3 }) }",
    );
}

proptest! {
    #[test]
    fn a_fence_admits_exactly_what_is_not_below_the_highest(numbers in prop::collection::vec(1..40_u64, 0..60)) {
        let fence = Fence::new();
        let mut highest = None;
        for number in numbers {
            let presented = token(number);
            let expected = match highest {
                Some(highest) if presented < highest => Err((presented, highest)),
                _ => {
                    highest = Some(presented);
                    Ok(())
                }
            };
            let got = fence.admit(presented).map_err(|stale| (stale.presented, stale.highest));
            prop_assert_eq!(got, expected);
            prop_assert_eq!(fence.highest(), highest);
        }
    }
}
