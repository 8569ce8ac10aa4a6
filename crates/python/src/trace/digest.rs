//! Whether two calls had the same arguments, without a word of them on record: 64 bits of SipHash-2-4, a keyed
//! pseudorandom function, over what they hold. The key is random, of one recording, and in no file; without it a digest
//! cannot be tried out against likely values.
#![expect(
    deprecated,
    reason = "std's other SipHash takes no key and may change with the compiler"
)]
use std::hash::{Hasher, SipHasher};
use std::sync::{Mutex, PoisonError};

use contend_core::ctrace::ring::current;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyString,
    PyTuple,
};

/// Of text and bytes in one call; larger arguments are not looked at.
const MOST_BYTES: usize = 64 << 10;
/// Values in one call, containers too.
const MOST_VALUES: usize = 4096;
const MOST_DEPTH: usize = 16;
/// Of the standard library: their `repr` is their value, wherever they are in memory.
const BY_REPR: [(&str, &str); 8] = [
    ("datetime", "datetime"),
    ("datetime", "date"),
    ("datetime", "time"),
    ("datetime", "timedelta"),
    ("datetime", "timezone"),
    ("uuid", "UUID"),
    ("decimal", "Decimal"),
    ("fractions", "Fraction"),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keyed {
    /// Nobody has said: a key is drawn at first use.
    Unasked,
    By(u64, u64),
    Never,
}

static KEY: Mutex<Keyed> = Mutex::new(Keyed::Unasked);

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (key, /))]
pub fn trace_digest_key(key: Option<[u8; 16]>) {
    let keyed = key.map_or(Keyed::Never, by);
    *KEY.lock().unwrap_or_else(PoisonError::into_inner) = keyed;
}

fn by(key: [u8; 16]) -> Keyed {
    let key = u128::from_le_bytes(key);
    Keyed::By(key as u64, (key >> 64) as u64)
}

/// The key, drawn if nobody has given one. None: no digests, or no random numbers to be had.
fn key() -> Option<(u64, u64)> {
    let mut keyed = KEY.lock().unwrap_or_else(PoisonError::into_inner);
    if *keyed == Keyed::Unasked {
        let mut drawn = [0u8; 16];
        // SAFETY: writes at most so many bytes there.
        let got = unsafe { libc::getrandom(drawn.as_mut_ptr().cast(), drawn.len(), 0) };
        *keyed = match got == drawn.len() as isize {
            true => by(drawn),
            false => Keyed::Never,
        };
    }
    match *keyed {
        Keyed::By(low, high) => Some((low, high)),
        Keyed::Unasked | Keyed::Never => None,
    }
}

/// What may still be looked at.
struct Left {
    key: (u64, u64),
    bytes: usize,
    values: usize,
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (*values))]
pub fn trace_digest(values: &Bound<'_, PyTuple>) -> Option<i64> {
    if current() == 0 {
        return None;
    }
    let mut left = Left {
        key: key()?,
        bytes: MOST_BYTES,
        values: MOST_VALUES,
    };
    left.of(values.as_any(), 0).map(|digest| digest as i64)
}

/// What a statement alone gives, and by which key.
pub type Known = Option<((u64, u64), u64)>;

/// As `trace_digest(statement, parameters)`; what the statement gives is remembered in `known`.
pub fn of_statement(
    statement: &Bound<'_, PyString>,
    parameters: &Bound<'_, PyAny>,
    known: &mut Known,
) -> Option<u64> {
    let key = key()?;
    let mut left = Left {
        key,
        bytes: MOST_BYTES,
        values: MOST_VALUES - 1,
    };
    let alone = match *known {
        Some((by, alone)) if by == key => alone,
        _ => {
            let alone = left.of(statement.as_any(), 1)?;
            *known = Some((key, alone));
            alone
        }
    };
    let mut hasher = SipHasher::new_with_keys(key.0, key.1);
    hasher.write_u8(6);
    hasher.write_u64(alone);
    hasher.write_u64(left.of(parameters, 1)?);
    Some(hasher.finish())
}

/// What is in a dictionary. Without the interpreter's lock another thread may change it meanwhile: a copy then.
#[cfg(Py_GIL_DISABLED)]
fn pairs<'py>(
    items: &Bound<'py, PyDict>,
) -> impl Iterator<Item = (Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let all = items.items();
    (0..all.len()).filter_map(move |at| all.get_item(at).ok()?.extract().ok())
}

#[cfg(not(Py_GIL_DISABLED))]
fn pairs<'a, 'py>(
    items: &'a Bound<'py, PyDict>,
) -> impl Iterator<Item = (Bound<'py, PyAny>, Bound<'py, PyAny>)> + use<'a, 'py> {
    items.iter()
}

/// What is in a set; likewise.
fn members<'py>(items: &Bound<'py, PySet>) -> Option<Bound<'py, PySet>> {
    match cfg!(Py_GIL_DISABLED) {
        true => items.call_method0("copy").ok()?.cast_into().ok(),
        false => Some(items.clone()),
    }
}

impl Left {
    /// Of one value; None where it is too much, or not certain to be told the same way again.
    fn of(&mut self, value: &Bound<'_, PyAny>, depth: usize) -> Option<u64> {
        self.values = self.values.checked_sub(1)?;
        if depth > MOST_DEPTH {
            return None;
        }
        let mut hasher = SipHasher::new_with_keys(self.key.0, self.key.1);
        // Only what is exactly of these types: a class of the program's could run its own code, or be more than it holds.
        if value.is_none() {
            hasher.write_u8(0);
        } else if let Ok(truth) = value.cast_exact::<PyBool>() {
            hasher.write(&[1, truth.is_true().into()]);
        } else if let Ok(number) = value.cast_exact::<PyInt>() {
            let number = number.extract::<i64>().ok()?;
            self.bytes(&mut hasher, 2, &number.to_le_bytes())?;
        } else if let Ok(number) = value.cast_exact::<PyFloat>() {
            self.bytes(&mut hasher, 3, &number.value().to_bits().to_le_bytes())?;
        } else if let Ok(text) = value.cast_exact::<PyString>() {
            self.bytes(&mut hasher, 4, text.to_cow().ok()?.as_bytes())?;
        } else if let Ok(bytes) = value.cast_exact::<PyBytes>() {
            self.bytes(&mut hasher, 5, bytes.as_bytes())?;
        } else if let Ok(bytes) = value.cast_exact::<PyByteArray>() {
            self.bytes(&mut hasher, 5, &bytes.to_vec())?;
        } else if let Ok(items) = value.cast_exact::<PyTuple>() {
            self.ordered(&mut hasher, items.iter(), depth)?;
        } else if let Ok(items) = value.cast_exact::<PyList>() {
            self.ordered(&mut hasher, items.iter(), depth)?;
        } else if let Ok(items) = value.cast_exact::<PyDict>() {
            // In any order: a sum of what is pseudorandom.
            let mut sum = 0u64;
            for (name, item) in pairs(items) {
                let mut pair = SipHasher::new_with_keys(self.key.0, self.key.1);
                pair.write_u64(self.of(&name, depth + 1)?);
                pair.write_u64(self.of(&item, depth + 1)?);
                sum = sum.wrapping_add(pair.finish());
            }
            self.bytes(&mut hasher, 7, &sum.to_le_bytes())?;
            hasher.write_usize(items.len());
        } else if let Ok(items) = value.cast_exact::<PySet>() {
            let items = members(items)?;
            self.unordered(&mut hasher, items.iter(), depth)?;
        } else if let Ok(items) = value.cast_exact::<PyFrozenSet>() {
            self.unordered(&mut hasher, items.iter(), depth)?;
        } else {
            self.told(&mut hasher, value)?;
        }
        Some(hasher.finish())
    }

    fn bytes(&mut self, hasher: &mut SipHasher, kind: u8, bytes: &[u8]) -> Option<()> {
        self.bytes = self.bytes.checked_sub(bytes.len())?;
        hasher.write_u8(kind);
        hasher.write(bytes);
        Some(())
    }

    fn ordered<'py>(
        &mut self,
        hasher: &mut SipHasher,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
        depth: usize,
    ) -> Option<()> {
        hasher.write_u8(6);
        for item in items {
            hasher.write_u64(self.of(&item, depth + 1)?);
        }
        Some(())
    }

    fn unordered<'py>(
        &mut self,
        hasher: &mut SipHasher,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
        depth: usize,
    ) -> Option<()> {
        let mut sum = 0u64;
        let mut count = 0;
        for item in items {
            sum = sum.wrapping_add(self.of(&item, depth + 1)?);
            count += 1;
        }
        hasher.write_u8(8);
        hasher.write_u64(sum);
        hasher.write_usize(count);
        Some(())
    }

    /// By its `repr`, where that is the standard library's own. A time zone of the program's would be asked for its own.
    fn told(&mut self, hasher: &mut SipHasher, value: &Bound<'_, PyAny>) -> Option<()> {
        let of = value.get_type();
        let (module, name) = (of.module().ok()?, of.name().ok()?);
        let (module, name) = (module.to_cow().ok()?, name.to_cow().ok()?);
        if !BY_REPR.contains(&(&*module, &*name)) {
            return None;
        }
        if let Ok(zone) = value.getattr("tzinfo")
            && !zone.is_none()
        {
            let module = zone.get_type().module().ok()?;
            if !["datetime", "zoneinfo"].contains(&&*module.to_cow().ok()?) {
                return None;
            }
        }
        let text = value.repr().ok()?;
        let text = text.to_cow().ok()?;
        self.bytes(hasher, 9, name.as_bytes())?;
        self.bytes(hasher, 10, text.as_bytes())
    }
}
