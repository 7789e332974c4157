//! Reads as much of a Markdown file as its links need.

/// What a Markdown file has, apart from its prose.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Markdown<'a> {
    /// Where links lead: the line, and the target without its title.
    pub(super) links: Vec<(usize, &'a str)>,
    /// The texts between backticks, with their lines.
    pub(super) spans: Vec<(usize, &'a str)>,
    /// The names by which a link can reach a heading.
    pub(super) anchors: Vec<String>,
}

impl Markdown<'_> {
    pub(super) fn of(text: &str) -> Markdown<'_> {
        let mut found = Markdown::default();
        let prose = found.take_code(text);
        found.take_links(text, &prose);
        found.take_anchors(text, &prose);
        found
    }
}

impl<'a> Markdown<'a> {
    /// Notes the code spans, and returns the text with spaces in place of all code, byte for byte and line for line.
    fn take_code(&mut self, text: &'a str) -> String {
        let mut prose = text.as_bytes().to_vec();
        let mut fence: Option<&str> = None;
        let mut begin = 0;
        for (index, line) in text.split_inclusive('\n').enumerate() {
            let trimmed = line.trim_start();
            let marks = |mark: char| &trimmed[..trimmed.len() - trimmed.trim_start_matches(mark).len()];
            let opening = [marks('`'), marks('~')].into_iter().find(|marks| marks.len() >= 3);
            match (fence, opening) {
                (None, Some(_)) => {
                    fence = opening;
                    blank(&mut prose[begin..begin + line.len()]);
                }
                (None, None) => {
                    self.take_spans(index + 1, line, &mut prose[begin..begin + line.len()]);
                }
                (Some(open), closing) => {
                    blank(&mut prose[begin..begin + line.len()]);
                    if closing.is_some_and(|closing| closing.starts_with(open)) {
                        fence = None;
                    }
                }
            }
            begin += line.len();
        }
        // Only whole lines and what is between ASCII backticks was replaced, so that no character was cut in two.
        String::from_utf8(prose).unwrap_or_default()
    }

    /// The spans of one line. (A span that goes over a line's end is rare, and is taken for prose.)
    fn take_spans(&mut self, number: usize, line: &'a str, prose: &mut [u8]) {
        let mut at = 0;
        while let Some(begin) = line[at..].find('`').map(|found| at + found) {
            let inside = &line[begin..];
            let ticks = &inside[..inside.len() - inside.trim_start_matches('`').len()];
            let content = begin + ticks.len();
            let Some(end) = line[content..].find(ticks).map(|found| content + found) else {
                at = content;
                continue;
            };
            self.spans.push((number, line[content..end].trim()));
            blank(&mut prose[begin..end + ticks.len()]);
            at = end + ticks.len();
        }
    }

    /// `[text](target "title")`, also over two lines, and `[text]: target`.
    fn take_links(&mut self, text: &'a str, prose: &str) {
        let line_of = |at: usize| text[..at].matches('\n').count() + 1;
        for (at, _) in prose.match_indices("](") {
            let begin = at + 2;
            let mut depth = 1_i32;
            let end = prose[begin..].find(|c| {
                depth += i32::from(c == '(') - i32::from(c == ')');
                depth == 0
            });
            if let Some(end) = end {
                self.links.push((line_of(at), without_title(&text[begin..begin + end])));
            }
        }
        let mut begin = 0;
        for line in prose.split_inclusive('\n') {
            if line.trim_start().starts_with('[')
                && !line.trim_start().starts_with("[^")
                && let Some(at) = line.find("]:")
            {
                let target = &text[begin + at + 2..begin + line.len()];
                self.links.push((line_of(begin), without_title(target)));
            }
            begin += line.len();
        }
    }

    fn take_anchors(&mut self, text: &str, prose: &str) {
        for (line, prose) in text.lines().zip(prose.lines()) {
            let heading = line.trim_start_matches('#');
            let level = line.len() - heading.len();
            if prose.starts_with('#') && level <= 6 && heading.starts_with(' ') {
                let slug = slug(heading);
                let name = (1..).map(|count| format!("{slug}-{count}")).find(|name| !self.anchors.contains(name));
                match (self.anchors.contains(&slug), name) {
                    (true, Some(name)) => self.anchors.push(name),
                    _ => self.anchors.push(slug),
                }
            }
            for attribute in ["id=\"", "name=\""] {
                let named = prose.split(attribute).skip(1);
                self.anchors.extend(named.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
            }
        }
    }
}

fn blank(bytes: &mut [u8]) {
    for byte in bytes {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

fn without_title(target: &str) -> &str {
    let target = target.trim();
    if let Some((inside, _)) = target.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        return inside;
    }
    target.split_whitespace().next().unwrap_or_default()
}

/// The name that GitHub gives to a heading.
fn slug(heading: &str) -> String {
    heading
        .trim()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            c if c.is_alphanumeric() => Some(c),
            _ => None,
        })
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_every_form_are_read() {
        let text = "[a](b.md) ![c](d.png \"title\")\n[e\nf](<g h.md>)\n[`i`](j(k).md)\n\n  [l]: m.md \"title\"\n[^n]: not one\n";
        let links = Markdown::of(text).links;
        assert_eq!(links, [(1, "b.md"), (1, "d.png"), (3, "g h.md"), (4, "j(k).md"), (6, "m.md")],);
    }

    #[test]
    fn what_is_code_is_no_link_and_no_heading() {
        let text = "`[a](b)` ``[`c`](d)``\n```sh\n# e\n[f](g)\n```\n~~~~\n~~~\n[h](i)\n~~~~\n[j](k)\n";
        let found = Markdown::of(text);
        assert_eq!(found.links, [(10, "k")]);
        assert_eq!(found.anchors, Vec::<String>::new());
        assert_eq!(found.spans, [(1, "[a](b)"), (1, "[`c`](d)")]);
    }

    #[test]
    fn a_lone_backtick_hides_nothing() {
        assert_eq!(Markdown::of("a ` b [c](d)\n").links, [(1, "d")]);
    }

    #[test]
    fn headings_are_named_as_github_names_them() {
        let text =
            "# What it `promises`, in 5 lines\n## Who? Élan_x\n## Who? Élan_x\n#no heading\n<a id=\"here\"></a>\n";
        assert_eq!(Markdown::of(text).anchors, ["what-it-promises-in-5-lines", "who-élan_x", "who-élan_x-1", "here"],);
    }
}
