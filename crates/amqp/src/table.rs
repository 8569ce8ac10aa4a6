//! Field tables: names and typed values (RabbitMQ's reading of the types:
//! <https://www.rabbitmq.com/docs/amqp-0-9-1-errata#section_3>).
use crate::wire::{Fields, Malformed, Parsed, patch_length, put_long, put_short};

/// Tables in tables deeper than this are refused.
const MAX_DEPTH: usize = 16;

/// A value as clients send it.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A signed number of 32 bits.
    Int(i32),
    /// Text.
    Text(String),
    /// A table in the table.
    Table(Table),
    /// What we have no use for, of a valid type.
    Other,
}

/// Names and values in their order.
pub type Table = Vec<(String, Value)>;

/// Append a table.
pub fn put(out: &mut Vec<u8>, table: &Table) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    for (name, value) in table {
        put_short(out, name);
        put_value(out, value);
    }
    patch_length(out, at);
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Bool(yes) => out.extend_from_slice(&[b't', u8::from(*yes)]),
        Value::Int(number) => {
            out.push(b'I');
            out.extend_from_slice(&number.to_be_bytes());
        }
        Value::Text(text) => {
            out.push(b'S');
            put_long(out, text.as_bytes());
        }
        Value::Table(inner) => {
            out.push(b'F');
            put(out, inner);
        }
        Value::Other => out.push(b'V'),
    }
}

/// Take a table from the front.
pub fn take(fields: &mut Fields<'_>) -> Parsed<Table> {
    table(fields, 0)
}

fn table(fields: &mut Fields<'_>, depth: usize) -> Parsed<Table> {
    if depth > MAX_DEPTH {
        return Err(Malformed("tables nested too deeply"));
    }
    let mut inner = Fields(fields.long()?);
    let mut found = Vec::new();
    while !inner.0.is_empty() {
        let name = inner.short()?.to_owned();
        found.push((name, value(&mut inner, depth)?));
    }
    Ok(found)
}

fn value(fields: &mut Fields<'_>, depth: usize) -> Parsed<Value> {
    let skipped = match fields.octet()? {
        b't' => return Ok(Value::Bool(fields.octet()? != 0)),
        b'I' => return Ok(Value::Int(fields.long_int()? as i32)),
        b'S' => {
            let text = String::from_utf8_lossy(fields.long()?).into_owned();
            return Ok(Value::Text(text));
        }
        b'F' => return table(fields, depth + 1).map(Value::Table),
        b'A' => {
            if depth > MAX_DEPTH {
                return Err(Malformed("arrays nested too deeply"));
            }
            let mut inner = Fields(fields.long()?);
            while !inner.0.is_empty() {
                value(&mut inner, depth + 1)?;
            }
            0
        }
        b'b' | b'B' => 1,
        b's' | b'u' => 2,
        b'i' | b'f' => 4,
        b'l' | b'L' | b'd' | b'T' => 8,
        b'D' => 5,
        b'x' => fields.long_int()? as usize,
        b'V' => 0,
        _ => return Err(Malformed("a table's value of no known type")),
    };
    fields.take(skipped)?;
    Ok(Value::Other)
}

/// The text of that name, if there is one.
pub fn text<'a>(table: &'a Table, name: &str) -> Option<&'a str> {
    table.iter().find_map(|(key, value)| match value {
        Value::Text(text) if key == name => Some(text.as_str()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use contend_core::pace::schedule::Random;

    fn random_table(random: &mut Random, depth: u32) -> Table {
        let name = |random: &mut Random| format!("k{}", random.below(1000));
        (0..random.below(5))
            .map(|_| {
                let value = match random.below(if depth > 3 { 3 } else { 4 }) {
                    0 => Value::Bool(random.below(2) == 1),
                    1 => Value::Int(random.bits() as i32),
                    2 => Value::Text("ä".repeat(random.below(40) as usize)),
                    _ => Value::Table(random_table(random, depth + 1)),
                };
                (name(random), value)
            })
            .collect()
    }

    #[test]
    fn tables_come_back() {
        let mut random = Random::new(21);
        for _ in 0..2000 {
            let table = random_table(&mut random, 0);
            let mut out = Vec::new();
            put(&mut out, &table);
            let mut fields = Fields(&out);
            assert_eq!(take(&mut fields).unwrap(), table);
            assert!(fields.0.is_empty());
            for cut in 0..out.len() {
                assert!(take(&mut Fields(&out[..cut])).is_err(), "cut at {cut}");
            }
        }
    }

    #[test]
    fn every_type_of_rabbitmq_is_passed_over_by_its_length() {
        let mut body = Vec::new();
        for (kind, length) in [
            (b'b', 1),
            (b'B', 1),
            (b's', 2),
            (b'u', 2),
            (b'i', 4),
            (b'f', 4),
            (b'l', 8),
            (b'd', 8),
            (b'T', 8),
            (b'D', 5),
            (b'V', 0),
        ] {
            put_short(&mut body, "x");
            body.push(kind);
            body.extend(std::iter::repeat_n(1, length));
        }
        put_short(&mut body, "x");
        body.extend_from_slice(b"x\0\0\0\x03abc");
        put_short(&mut body, "array");
        body.extend_from_slice(b"A\0\0\0\x02t\x01");
        put_short(&mut body, "last");
        body.extend_from_slice(b"S\0\0\0\x02ok");
        let mut out = Vec::new();
        put_long(&mut out, &body);
        let found = take(&mut Fields(&out)).unwrap();
        assert_eq!((found.len(), text(&found, "last")), (14, Some("ok")));
    }

    #[test]
    fn a_bottomless_table_is_refused() {
        let mut table = Vec::new();
        for _ in 0..30 {
            table = vec![("t".to_owned(), Value::Table(table))];
        }
        let mut out = Vec::new();
        put(&mut out, &table);
        assert_eq!(take(&mut Fields(&out)), Err(Malformed("tables nested too deeply")));
    }
}
