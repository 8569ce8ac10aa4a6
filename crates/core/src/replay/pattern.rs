//! Patterns of names: `*` any text, `?` any one character; a name is a pattern of itself, whatever it holds.

/// Whether the whole text is of that pattern.
pub fn matches(pattern: &str, text: &str) -> bool {
    if pattern == text {
        return true;
    }
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where the last star stands, and up to where it has eaten.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == '?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, eaten)) => {
                    star = Some((at, eaten + 1));
                    p = at + 1;
                    t = eaten + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, text, expected) in [
            ("boot", "boot", true),
            ("boot", "boots", false),
            ("boot*", "boots", true),
            ("*s", "boots", true),
            ("b??t", "boot", true),
            ("*o*t*", "boots", true),
            ("*o*z*", "boots", false),
            ("*", "", true),
            ("", "", true),
            ("a*b*c", "aXbXbXc", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
