//! The evidence of a row of `trials.ndjson`, apart from the rest of the row.
//!
//! It is most of a row's bytes, and has the same names and units in nearly all rows of a run. What contend writes is an
//! array of `{"name": …, "value": …, "unit": …}` in that order; a row that is written otherwise is left to a whole parser.

/// A row in two parts.
#[derive(Debug, PartialEq)]
pub struct Apart {
    /// The row with `null` for its evidence. Nothing in it has been checked, but where its evidence was.
    pub rest: Vec<u8>,
    /// Name and unit of each piece of evidence in turn, a line each; UTF-8.
    pub shape: Vec<u8>,
    /// Their values; all are finite.
    pub values: Vec<f64>,
}

/// A row's evidence and its rest. None where the row has none, has it twice, or has it in another form than contend writes:
/// with escapes, other keys, or values that are no finite numbers.
///
/// If `rest` is JSON, then so is `line`, and it means the same but for the evidence.
pub fn apart(line: &[u8]) -> Option<Apart> {
    let mut at = Cursor { line, at: 0 };
    let mut found: Option<(std::ops::Range<usize>, Vec<u8>, Vec<f64>)> = None;
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
            found = Some((begin..at.at, shape, values));
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
    Some(Apart { rest, shape, values })
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

    /// A finite number as RFC 8259, 6 has it.
    fn number(&mut self) -> Option<f64> {
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
        let value: f64 = std::str::from_utf8(&self.line[begin..self.at]).ok()?.parse().ok()?;
        // Of whole numbers there is one zero.
        let value = if self.at == whole { value + 0.0 } else { value };
        value.is_finite().then_some(value)
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
                _ => {}
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
