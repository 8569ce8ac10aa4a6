//! A row of `trials.ndjson` apart: what it shares with other rows of its cell, and what it alone measured.
//!
//! Its evidence is most of a row's bytes, and has the same names and units in nearly all rows of a run. What contend writes
//! is an array of `{"name": …, "value": …, "unit": …}` in that order; a row that is written otherwise is left to a whole
//! parser. Of the rest of a row only the numbers of some members differ from those of the row before.

/// The members of a row that hold what this trial alone measured.
const MEASURED: [&[u8]; 8] =
    [b"trial", b"block", b"utc", b"started_ns", b"ended_ns", b"metrics", b"neighbours", b"overhead"];

/// Stands in a template for a number or a time; in no JSON text. What kind it is follows.
const SLOT: u8 = 1;

/// Of `2026-01-31T00:00:00.000000000+00:00`, 35.
const LONGEST_TIME: usize = 40;

/// A row in two parts.
#[derive(Debug, PartialEq)]
pub struct Apart {
    /// The row with `null` for its evidence. Nothing in it has been checked, but where its evidence was.
    pub rest: Vec<u8>,
    /// The same with a slot (two bytes: 1, and its kind) for each figure of what it alone measured. Two rows of one template
    /// differ in figures of the same kinds only.
    pub template: Vec<u8>,
    /// What stood in the slots, in turn.
    pub figures: Vec<Figure>,
    /// Name and unit of each piece of evidence in turn, a line each; UTF-8.
    pub shape: Vec<u8>,
    /// Their values; all are finite.
    pub values: Vec<f64>,
}

/// A figure of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Figure {
    /// A whole number.
    Whole(i64),
    /// A finite one that is written with a point or an exponent.
    Float(f64),
    /// The date and time of `utc`: digits, signs, `T`, `Z`.
    Time(String),
}

impl Figure {
    /// Whatever asks only how large a number may be holds for all of a kind, or for none.
    fn kind(&self) -> u8 {
        match self {
            Self::Whole(0..=0x7fff_ffff) => b'c',
            Self::Whole(0x8000_0000..) => b'n',
            Self::Whole(-0x7fff_ffff..=-1) => b'i',
            Self::Whole(_) => b'j',
            Self::Float(_) => b'f',
            Self::Time(_) => b't',
        }
    }
}

/// A row's evidence and its rest. None where the row has none, has it twice, or has it in another form than contend writes:
/// with escapes, other keys, or values that are no finite numbers; and where a figure has 64 bits or more.
///
/// If `rest` is JSON, then so is `line`, and it means the same but for the evidence. If the template of a line is that of a
/// line that is JSON, then so is the line.
pub fn apart(line: &[u8]) -> Option<Apart> {
    if line.contains(&SLOT) {
        return None;
    }
    let mut at = Cursor { line, at: 0 };
    let mut found: Option<(std::ops::Range<usize>, Vec<u8>, Vec<f64>)> = None;
    let mut slots = Slots::default();
    at.expect(b'{')?;
    loop {
        let key = at.string()?;
        at.expect(b':')?;
        at.space();
        let begin = at.at;
        if key == b"evidence" {
            if found.is_some() {
                return None;
            }
            let (shape, values) = at.evidence()?;
            slots.replace(line, begin..at.at, b"null");
            found = Some((begin..at.at, shape, values));
        } else if MEASURED.contains(&key) {
            at.measured(key == b"utc", &mut slots)?;
        } else {
            at.skip_value()?;
        }
        match at.next()? {
            b',' => {}
            b'}' => break,
            _ => return None,
        }
    }
    let (range, shape, values) = found?;
    std::str::from_utf8(&shape).ok()?;
    let mut rest = Vec::with_capacity(line.len() - range.len() + 4);
    rest.extend_from_slice(&line[..range.start]);
    rest.extend_from_slice(b"null");
    rest.extend_from_slice(&line[range.end..]);
    slots.template.extend_from_slice(&line[slots.copied..]);
    Some(Apart { rest, template: slots.template, figures: slots.figures, shape, values })
}

/// A template while it is made.
#[derive(Default)]
struct Slots {
    template: Vec<u8>,
    /// So much of the line is in it.
    copied: usize,
    figures: Vec<Figure>,
}

impl Slots {
    fn replace(&mut self, line: &[u8], range: std::ops::Range<usize>, by: &[u8]) {
        self.template.extend_from_slice(&line[self.copied..range.start]);
        self.template.extend_from_slice(by);
        self.copied = range.end;
    }

    fn put(&mut self, line: &[u8], range: std::ops::Range<usize>, figure: Figure) {
        self.replace(line, range, &[SLOT, figure.kind()]);
        self.figures.push(figure);
    }
}

struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn space(&mut self) {
        while matches!(self.line.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// The next byte that is no space.
    fn next(&mut self) -> Option<u8> {
        self.space();
        let byte = *self.line.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, wanted: u8) -> Option<()> {
        (self.next()? == wanted).then_some(())
    }

    /// A string without escapes and control characters: its bytes.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let begin = self.at;
        loop {
            match *self.line.get(self.at)? {
                b'"' => break,
                b'\\' | 0..=0x1f => return None,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(&self.line[begin..self.at - 1])
    }

    fn evidence(&mut self) -> Option<(Vec<u8>, Vec<f64>)> {
        let (mut shape, mut values) = (Vec::new(), Vec::new());
        self.expect(b'[')?;
        self.space();
        if self.line.get(self.at) == Some(&b']') {
            self.at += 1;
            return Some((shape, values));
        }
        loop {
            self.expect(b'{')?;
            let name = self.member(b"name")?.string()?;
            self.expect(b',')?;
            values.push(self.member(b"value")?.number()?);
            self.expect(b',')?;
            let unit = self.member(b"unit")?.string()?;
            self.expect(b'}')?;
            for text in [name, unit] {
                shape.extend_from_slice(text);
                shape.push(b'\n');
            }
            match self.next()? {
                b',' => {}
                b']' => return Some((shape, values)),
                _ => return None,
            }
        }
    }

    /// At the value of a member of that name.
    fn member(&mut self, name: &[u8]) -> Option<&mut Self> {
        (self.string()? == name).then_some(())?;
        self.expect(b':')?;
        Some(self)
    }

    /// A finite number.
    fn number(&mut self) -> Option<f64> {
        let (text, whole) = self.number_text()?;
        let value: f64 = text.parse().ok()?;
        // Of whole numbers there is one zero.
        let value = if whole { value + 0.0 } else { value };
        value.is_finite().then_some(value)
    }

    /// A number as RFC 8259, 6 has it, and whether it has neither point nor exponent.
    fn number_text(&mut self) -> Option<(&'a str, bool)> {
        self.space();
        let begin = self.at;
        if self.line.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        let first = self.at;
        if self.digits()? > 1 && self.line[first] == b'0' {
            return None;
        }
        let whole = self.at;
        if self.line.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.line.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.line.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let text = std::str::from_utf8(&self.line[begin..self.at]).ok()?;
        Some((text, self.at == whole))
    }

    fn figure(&mut self) -> Option<Figure> {
        let (text, whole) = self.number_text()?;
        if whole {
            let value = text.parse().ok()?;
            return (value > i64::MIN).then_some(Figure::Whole(value));
        }
        let value: f64 = text.parse().ok()?;
        value.is_finite().then_some(Figure::Float(value))
    }

    /// How many there are, one at least.
    fn digits(&mut self) -> Option<usize> {
        let begin = self.at;
        while matches!(self.line.get(self.at), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        (self.at > begin).then_some(self.at - begin)
    }

    /// Past a value, if it is one: whoever parses the rest says whether it is.
    fn skip_value(&mut self) -> Option<()> {
        self.walk(|_| Some(false))
    }

    /// Past a value, with its figures put into slots; of a text only where it is a `time`.
    fn measured(&mut self, time: bool, slots: &mut Slots) -> Option<()> {
        let line = self.line;
        if time && line.get(self.at) == Some(&b'"') {
            let begin = self.at;
            let text = self.string()?;
            let plain = |byte: &u8| byte.is_ascii_digit() || b"TZ:.+-".contains(byte);
            if text.len() <= LONGEST_TIME && text.iter().all(plain) {
                let text = String::from_utf8_lossy(text).into_owned();
                slots.put(line, begin..self.at, Figure::Time(text));
            }
            return Some(());
        }
        self.walk(|at| {
            if !matches!(at.line[at.at], b'0'..=b'9' | b'-') {
                return Some(false);
            }
            let begin = at.at;
            let figure = at.figure()?;
            slots.put(line, begin..at.at, figure);
            Some(true)
        })
    }

    /// Past a value. `step` is asked at each byte outside texts whether it has gone past something itself.
    fn walk(&mut self, mut step: impl FnMut(&mut Self) -> Option<bool>) -> Option<()> {
        let mut depth = 0usize;
        loop {
            match *self.line.get(self.at)? {
                b'"' => {
                    self.skip_string()?;
                    if depth == 0 {
                        return Some(());
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    if depth == 0 {
                        return Some(()); // of the row: what stood before it was a number or a word
                    }
                    depth -= 1;
                    if depth == 0 {
                        self.at += 1;
                        return Some(());
                    }
                }
                b',' if depth == 0 => return Some(()),
                _ => {
                    if step(self)? {
                        continue;
                    }
                }
            }
            self.at += 1;
        }
    }

    fn skip_string(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            match *self.line.get(self.at)? {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_comes_apart() {
        let line = br#"{"trial":1,"a\u0062":"}\"","cell":"a|b","evidence":[{"name":"wall","value":-0.5e1,"unit":"s"},
            {"name":"switches" , "value" : 7, "unit":""}] , "deep":{"evidence":[1,{}]},"flags":[],"n":-1.5}
"#;
        // An escaped key might be any key.
        assert_eq!(apart(line), None);
        let line = String::from_utf8_lossy(line).replace("a\\u0062", "ab");
        let found = apart(line.as_bytes()).unwrap();
        assert_eq!(found.values, [-5.0, 7.0]);
        assert_eq!(found.shape, b"wall\ns\nswitches\n\n");
        assert_eq!(
            String::from_utf8(found.rest).unwrap(),
            "{\"trial\":1,\"ab\":\"}\\\"\",\"cell\":\"a|b\",\"evidence\":null , \"deep\":{\"evidence\":[1,{}]},\
             \"flags\":[],\"n\":-1.5}\n"
        );
    }

    #[test]
    fn rows_of_one_cell_have_one_template() {
        let row = |trial: &str, utc: &str, value: &str, more: &str| {
            let line = format!(
                r#"{{"trial":{trial},"utc":"{utc}","cell":"a7","metrics":[{{"name":"r1","value":{value},"primary":true}}],"evidence":[],"overhead":{{}}{more}}}"#
            );
            apart(line.as_bytes()).unwrap()
        };
        let first = row("0", "2026-01-01T00:00:00Z", "1.5", "");
        let second = row("17", "2027-01-01T00:00:00.5Z", "-2e3", "");
        assert_eq!(first.template, second.template);
        assert_eq!(
            second.template,
            b"{\"trial\":\x01c,\"utc\":\x01t,\"cell\":\"a7\",\"metrics\":[{\"name\":\"r1\",\"value\":\x01f,\
              \"primary\":true}],\"evidence\":null,\"overhead\":{}}"
        );
        let time = Figure::Time("2027-01-01T00:00:00.5Z".into());
        assert_eq!(second.figures, [Figure::Whole(17), time, Figure::Float(-2000.0)]);
        // Another kind of number, and anything else that differs, is another template.
        for (trial, utc, value, more) in [
            ("2147483648", "", "1.5", ""),
            ("-1", "", "1.5", ""),
            ("-2147483648", "", "1.5", ""),
            ("0", "soon", "1.5", ""),
            ("0", "", "1", ""),
            ("0", "", "true", ""),
            ("0", "", "1.5", ",\"flags\":[1]"),
            ("0", "", "1.5", ",\"trial\":1"),
        ] {
            assert_ne!(row(trial, utc, value, more).template, first.template, "{trial} {utc} {value} {more}");
        }
        let kinds = ["2147483647", "2147483648", "-2147483647", "-2147483648"]
            .map(|trial| row(trial, "", "1.5", "").template[10]);
        assert_eq!(&kinds, b"cnij");
        for beyond in ["9223372036854775808", "-9223372036854775808"] {
            let line = format!("{{\"trial\":{beyond},\"evidence\":[]}}");
            assert_eq!(apart(line.as_bytes()), None);
        }
        assert_eq!(apart(b"{\"cell\":\x01c,\"evidence\":[]}"), None);
    }

    #[test]
    fn none_is_none_and_empty_is_empty() {
        assert_eq!(apart(b"{\"deep\":{\"evidence\":[]}}"), None);
        assert_eq!(apart(b"{\"evidence\":[ ]}").unwrap().values, []);
        assert_eq!(apart(b"{\"evidence\":[ ]}").unwrap().rest, b"{\"evidence\":null}");
    }

    #[test]
    fn whatever_is_written_otherwise_is_left() {
        let reading = r#"{"name":"a","value":1,"unit":"s"}"#;
        assert!(apart(format!("{{\"evidence\":[{reading}]}}").as_bytes()).is_some());
        for (from, to) in [
            ("\"value\":1", "\"value\":01"),
            ("\"value\":1", "\"value\":1."),
            ("\"value\":1", "\"value\":.5"),
            ("\"value\":1", "\"value\":+1"),
            ("\"value\":1", "\"value\":1e"),
            ("\"value\":1", "\"value\":1e999"),
            ("\"value\":1", "\"value\":NaN"),
            ("\"value\":1", "\"value\":true"),
            ("\"value\":1", "\"value\":\"1\""),
            ("\"value\":1", "\"value\":1,\"more\":2"),
            ("\"name\":\"a\"", "\"name\":\"\\u0061\""),
            ("\"name\":\"a\"", "\"name\":\"\n\""),
            ("\"name\":\"a\"", "\"names\":\"a\""),
            ("\"unit\":\"s\"", "\"unit\":null"),
            ("\"unit\":\"s\"", "\"unit\":\"s\",\"name\":\"b\""),
            ("}", "},"),
            ("}", ""),
        ] {
            let line = format!("{{\"evidence\":[{}]}}", reading.replacen(from, to, 1));
            assert_eq!(apart(line.as_bytes()), None, "{line}");
        }
        assert_eq!(apart(format!("{{\"evidence\":[{reading}],\"evidence\":[]}}").as_bytes()), None);
        assert_eq!(apart(b"{\"evidence\":[{\"name\":\"\xff\",\"value\":1,\"unit\":\"s\"}]}"), None);
    }

    #[test]
    fn zeros_and_large_numbers_are_as_floats_of_what_is_written() {
        let values = |text: &str| {
            let line = format!("{{\"evidence\":[{{\"name\":\"a\",\"value\":{text},\"unit\":\"s\"}}]}}");
            apart(line.as_bytes()).unwrap().values[0].to_bits()
        };
        assert_eq!(values("-0"), 0f64.to_bits());
        assert_eq!(values("-0.0"), (-0f64).to_bits());
        assert_eq!(values("9007199254740993"), 9007199254740992f64.to_bits());
        assert_eq!(values("5e-324"), 1);
    }

    #[test]
    fn every_cut_and_every_other_byte_ends() {
        let line = br#"{"cell":"a","evidence":[{"name":"a","value":1,"unit":"s"}],"b":[1,"\\",{"c":2}]}"#;
        for end in 0..line.len() {
            assert_eq!(apart(&line[..end]), None);
            for byte in [b'"', b'\\', b'{', b']', b',', 0, 0xff] {
                let mut other = line.to_vec();
                other[end] = byte;
                let _ = apart(&other);
            }
        }
    }
}
