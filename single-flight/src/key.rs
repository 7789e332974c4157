use std::fmt;
use std::sync::Arc;

/// The name of a piece of work: equal text is the same key, everything else is different.
///
/// Any text is a key, also the empty one and one of many megabytes. Nothing is normalised: `é` composed and
/// `é` decomposed are two keys, and so are `K` and `k`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// The text of the key.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The bytes that name the key's lock file.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl<T: Into<String>> From<T> for Key {
    fn from(text: T) -> Self {
        Key(Arc::from(text.into()))
    }
}

/// Quoted, escaped and shortened, so that a message or a log line stays one line whatever the key is.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 80;
        let mut characters = self.0.chars();
        write!(f, "\"")?;
        for character in characters.by_ref().take(SHOWN) {
            write!(f, "{}", character.escape_debug())?;
        }
        write!(f, "\"")?;
        if characters.next().is_some() {
            write!(f, "… ({} bytes)", self.0.len())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn a_key_is_shown_escaped_and_shortened() {
        assert_eq!(Key::from("a\n\"b").to_string(), "\"a\\n\\\"b\"");
        let long = Key::from("x".repeat(1000)).to_string();
        assert!(long.ends_with("(1000 bytes)") && long.len() < 120, "{long}");
    }
}
