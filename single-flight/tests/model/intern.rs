//! Equal values are kept once, and are compared and hashed by number.
//!
//! A state of the world is then a handful of numbers, which the explorer stores exactly: nothing in it rests on fingerprints
//! that might collide. The tables belong to a thread; each exploration runs in a thread of its own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::ops::Deref;
use std::rc::Rc;
use std::thread::LocalKey;

/// A hasher that folds products. It is fast on the short fields of which the machines consist, and nobody attacks it.
#[derive(Default, Clone)]
pub(crate) struct Fold(u64);

impl Fold {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x9E37_79B9_7F4A_7C15) * 0xE703_7ED1_A0B4_28DB;
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.mix(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.mix(number as u64);
    }
}

pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Fold>>;

pub(crate) struct Table<T> {
    numbers: Map<Rc<T>, u32>,
    values: Vec<Rc<T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { numbers: Map::default(), values: Vec::new() }
    }
}

/// A type of which equal values are kept once.
pub(crate) trait Kept: Eq + Hash + Sized + 'static {
    fn table() -> &'static LocalKey<RefCell<Table<Self>>>;
}

/// Gives types their tables.
macro_rules! keep_once {
    ($($kind:ty),+ $(,)?) => {$(
        impl $crate::intern::Kept for $kind {
            fn table() -> &'static std::thread::LocalKey<std::cell::RefCell<$crate::intern::Table<Self>>> {
                std::thread_local! {
                    static TABLE: std::cell::RefCell<$crate::intern::Table<$kind>> = std::cell::RefCell::default();
                }
                &TABLE
            }
        }
    )+};
}
pub(crate) use keep_once;

/// A kept value.
pub(crate) struct Once<T> {
    number: u32,
    value: Rc<T>,
}

impl<T: Kept> Once<T> {
    pub(crate) fn new(value: T) -> Self {
        Once::from_rc(Rc::new(value))
    }

    /// The kept value that equals this one. One that is kept already is found without looking into it.
    pub(crate) fn from_rc(value: Rc<T>) -> Self {
        T::table().with_borrow_mut(|table| {
            if let Some(number) = table.numbers.get(&value) {
                let value = table.values[*number as usize].clone();
                return Once { number: *number, value };
            }
            let number = u32::try_from(table.values.len()).expect("fewer than 2^32 different values");
            table.numbers.insert(value.clone(), number);
            table.values.push(value.clone());
            Once { number, value }
        })
    }

    /// The kept value with this number.
    pub(crate) fn numbered(number: u32) -> Self {
        T::table().with_borrow(|table| Once { number, value: table.values[number as usize].clone() })
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl<T> Clone for Once<T> {
    fn clone(&self) -> Self {
        Once { number: self.number, value: self.value.clone() }
    }
}

impl<T> Deref for Once<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> PartialEq for Once<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for Once<T> {}

impl<T> Hash for Once<T> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u32(self.number);
    }
}

impl<T: fmt::Debug> fmt::Debug for Once<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T> Once<T> {
    pub(crate) fn into_rc(self) -> Rc<T> {
        self.value
    }
}
