//! A key as it is shown to people.

use std::fmt;

/// So much of a key is shown: enough to know it again, and short enough for one line.
const MOST_SHOWN: usize = 64;

/// No character is longer, and no sequence of bytes that is none.
const LONGEST_CHARACTER: usize = 4;

/// A key, escaped where it is not plain to see, and cut when it is long. It is escaped when it is shown, which is hardly ever.
pub(crate) struct KeyText {
    head: Box<[u8]>,
    /// Of the whole key.
    length: usize,
}

impl KeyText {
    pub(crate) fn of(key: &[u8]) -> KeyText {
        let head = &key[..key.len().min((MOST_SHOWN + 1) * LONGEST_CHARACTER)];
        KeyText { head: head.into(), length: key.len() }
    }
}

impl fmt::Display for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = MOST_SHOWN;
        let mut is_cut = || left.checked_sub(1).map(|less| left = less).is_none();
        for chunk in self.head.utf8_chunks() {
            for character in chunk.valid().chars() {
                if is_cut() {
                    return write!(f, "… ({} bytes)", self.length);
                }
                write!(f, "{}", character.escape_debug())?;
            }
            if !chunk.invalid().is_empty() {
                if is_cut() {
                    return write!(f, "… ({} bytes)", self.length);
                }
                write!(f, "{}", chunk.invalid().escape_ascii())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(key: &[u8]) -> String {
        KeyText::of(key).to_string()
    }

    #[test]
    fn what_cannot_be_seen_is_escaped_and_the_rest_is_not() {
        assert_eq!(shown(b"report"), "report");
        assert_eq!(shown("Ünïcode".as_bytes()), "Ünïcode");
        assert_eq!(shown(b""), "");
        assert_eq!(shown(b"a\nb\0\"\xff\x1b["), r#"a\nb\0\"\xff\u{1b}["#);
        // Composed and decomposed letters look alike, and are two keys.
        assert_ne!(shown("é".as_bytes()), shown("e\u{301}".as_bytes()));
    }

    #[test]
    fn a_long_key_is_cut() {
        assert_eq!(shown(&[b'x'; 64]), "x".repeat(64));
        assert_eq!(shown(&vec![b'x'; 1 << 20]), format!("{}… (1048576 bytes)", "x".repeat(64)));
        assert_eq!(shown("😀".repeat(65).as_bytes()), format!("{}… (260 bytes)", "😀".repeat(64)));
        assert_eq!(shown(&[0xff; 70]), format!("{}… (70 bytes)", r"\xff".repeat(64)));
    }
}
