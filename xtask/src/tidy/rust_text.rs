//! Tells the code in a Rust file from its comments and literals, well enough to look for a word.

/// `text` with each comment, string and character literal replaced by spaces, byte for byte and line for line: an offset in
/// the one is an offset in the other.
pub(super) fn code_of(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        match end_of_literal(text, at) {
            Some(end) => {
                for byte in out.iter_mut().take(end).skip(at) {
                    if *byte != b'\n' {
                        *byte = b' ';
                    }
                }
                at = end;
            }
            None => at += 1,
        }
    }
    // Literals begin and end at ASCII characters, so that no character was cut in two.
    String::from_utf8(out).unwrap_or_default()
}

/// The end of the comment or literal that begins at `at`, if one does.
fn end_of_literal(text: &str, at: usize) -> Option<usize> {
    let rest = &text.as_bytes()[at..];
    match rest {
        [b'/', b'/', ..] => Some(at + find(rest, 0, b"\n").unwrap_or(rest.len())),
        [b'/', b'*', ..] => Some(at + end_of_block_comment(rest)),
        [b'"', ..] => Some(at + end_of_string(rest)),
        [b'r', b'"' | b'#', ..] => end_of_raw_string(rest).map(|end| at + end),
        // An escape: the byte after the backslash may itself be a quote.
        [b'\'', b'\\', ..] => Some(at + find(rest, 3, b"'").map_or(rest.len(), |end| end + 1)),
        [b'\'', ..] => {
            // A character and a quote; else it is a lifetime.
            let character = text[at + 1..].chars().next()?;
            let end = 1 + character.len_utf8();
            (rest.get(end) == Some(&b'\'')).then_some(at + end + 1)
        }
        _ => None,
    }
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    let tail = bytes.get(from..)?;
    let found = tail.windows(what.len()).position(|window| window == what)?;
    Some(from + found)
}

/// Block comments nest.
fn end_of_block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    rest.len()
}

fn end_of_string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `None` for a raw identifier (`r#type`).
fn end_of_raw_string(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let mut closing = vec![b'"'];
    closing.resize(1 + hashes, b'#');
    let begin = 2 + hashes;
    Some(find(rest, begin, &closing).map_or(rest.len(), |end| end + closing.len()))
}

/// The lines (counted from 1) of `code` that have `word` in them, whole.
pub(super) fn lines_with_word<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.lines().enumerate().filter(move |(_, line)| has_word(line, word)).map(|(index, _)| index + 1)
}

/// Whether `line` has `word` with nothing around it that would make it another word.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(part_of_word) && !line[at + word.len()..].starts_with(part_of_word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn hidden(text: &str) {
        let code = code_of(text);
        assert_eq!(code.len(), text.len(), "{code:?}");
        assert!(!code.contains("unsafe"), "{code:?}");
        assert!(code.ends_with("END"), "the rest of {text:?} was lost: {code:?}");
    }

    #[test]
    fn comments_and_literals_are_blanked_and_what_follows_stays() {
        hidden("// unsafe\nEND");
        hidden("/* unsafe /* unsafe */ unsafe\n */ END");
        hidden(r#""unsafe \" unsafe \\" END"#);
        hidden(r##"r"unsafe \" END"##);
        hidden(r###"r#"unsafe " unsafe"# END"###);
        hidden(r##"br#"unsafe"# END"##);
        hidden(r"'\'' END");
        hidden(r"'\\' END");
        hidden("'\"' END");
        hidden("'é' END");
        hidden("fn f<'a>(r#type: &'a str) -> &'static str { \"unsafe\" } END");
        hidden("\"é unsafe\nunsafe\" END");
    }

    #[test]
    fn code_stays_at_its_offset() {
        let text = "let a = \"x\"; // y\nunsafe { b(&'a c) }\n";
        assert_eq!(code_of(text), "let a =    ;     \nunsafe { b(&'a c) }\n");
    }

    #[test]
    fn what_never_ends_is_blanked_to_the_end() {
        for text in ["\"unsafe", "/* unsafe", "r#\"unsafe\"", "'\\", "\"unsafe\\"] {
            assert_eq!(code_of(text).trim(), "", "{text}");
        }
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("unsafe {", "unsafe"));
        assert!(has_word("= unsafe{", "unsafe"));
        assert!(!has_word("#![forbid(unsafe_code)]", "unsafe"));
        assert!(!has_word("not_unsafe", "unsafe"));
        assert!(has_word("unsafe_code unsafe", "unsafe"));
        assert_eq!(lines_with_word("a\nb a\nab", "a").collect::<Vec<_>>(), [1, 2]);
    }
}
