//! Whether two calls had the same arguments, without a word of them on record: 64 bits of SipHash-2-4, a keyed
//! pseudorandom function, over what they hold. The key is random, of one recording, and in no file; without it a digest
//! cannot be tried out against likely values.
//!
//! Each value goes in as words: one of its kind and length, then what it holds, so that no two values give the same.
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use contend_core::ctrace::ring::current;
use contend_core::ctrace::sip::Sip;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyFrozenSet, PyList, PySet, PyTuple,
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

/// Kinds of values; a length is told above them.
const NONE: u64 = 0;
const BOOL: u64 = 1;
const INT: u64 = 2;
const FLOAT: u64 = 3;
const TEXT: u64 = 4;
const BYTES: u64 = 5;
const ROW: u64 = 6;
const PAIRS: u64 = 7;
const SET: u64 = 8;
const REPR: u64 = 9;
const DIGEST: u64 = 10;

fn sized(kind: u64, length: usize) -> u64 {
    kind | (length as u64) << 8
}

/// The key, and which one it is: written with the interpreter's lock held. Without that lock a digest may be of half a key
/// where a recording begins just then: like no other.
#[repr(align(32))]
struct Keyed {
    which: AtomicU32,
    low: AtomicU64,
    high: AtomicU64,
}

/// Nobody has said: a key is drawn at first use.
const UNASKED: u32 = 0;
const NEVER: u32 = 1;
const FIRST: u32 = 2;

static KEY: Keyed = Keyed {
    which: AtomicU32::new(UNASKED),
    low: AtomicU64::new(0),
    high: AtomicU64::new(0),
};

impl Keyed {
    #[cold]
    fn set(&self, key: Option<[u8; 16]>) {
        static KEYS: AtomicU32 = AtomicU32::new(FIRST);
        let Some(key) = key.map(u128::from_le_bytes) else {
            return self.which.store(NEVER, Ordering::Release);
        };
        self.low.store(key as u64, Ordering::Relaxed);
        self.high.store((key >> 64) as u64, Ordering::Relaxed);
        let which = KEYS.fetch_add(1, Ordering::Relaxed).max(FIRST);
        self.which.store(which, Ordering::Release);
    }

    #[cold]
    #[inline(never)]
    fn draw(&self) {
        let mut drawn = [0u8; 16];
        // SAFETY: writes at most so many bytes there.
        let got = unsafe { libc::getrandom(drawn.as_mut_ptr().cast(), drawn.len(), 0) };
        self.set((got == drawn.len() as isize).then_some(drawn));
    }

    /// Which one; `NEVER`: no digests, or no random numbers to be had.
    fn asked(&self) -> u32 {
        if self.which.load(Ordering::Acquire) == UNASKED {
            self.draw();
        }
        self.which.load(Ordering::Acquire)
    }

    fn key(&self) -> (u64, u64) {
        (
            self.low.load(Ordering::Relaxed),
            self.high.load(Ordering::Relaxed),
        )
    }
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (key, /))]
pub fn trace_digest_key(key: Option<[u8; 16]>) {
    KEY.set(key);
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (*values))]
pub fn trace_digest(values: &Bound<'_, PyTuple>) -> Option<i64> {
    if current() == 0 || KEY.asked() == NEVER {
        return None;
    }
    let key = KEY.key();
    let mut told = Told::by(key);
    // SAFETY: a live object, with the interpreter's lock held.
    unsafe { told.value(values.as_ptr(), 0)? };
    Some(told.sip.finish() as i64)
}

/// What a statement alone gives, and by which key.
pub struct Known {
    which: AtomicU32,
    alone: AtomicU64,
}

impl Known {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self {
            which: AtomicU32::new(UNASKED),
            alone: AtomicU64::new(0),
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn learn(&self, statement: *mut ffi::PyObject, which: u32) -> Option<u64> {
        let mut told = Told::by(KEY.key());
        unsafe { told.value(statement, 1)? };
        let alone = told.sip.finish();
        self.alone.store(alone, Ordering::Relaxed);
        self.which.store(which, Ordering::Release);
        Some(alone)
    }
}

/// Of a statement and its parameters; what the statement gives is remembered in `known`.
///
/// # Safety
/// With the interpreter's lock held, on live objects; `parameters` may be null.
#[inline(never)]
pub unsafe fn of_statement(
    statement: *mut ffi::PyObject,
    parameters: *mut ffi::PyObject,
    known: &Known,
) -> Option<u64> {
    let which = KEY.asked();
    if which == NEVER {
        return None;
    }
    let alone = match known.which.load(Ordering::Acquire) == which {
        true => known.alone.load(Ordering::Relaxed),
        false => unsafe { known.learn(statement, which)? },
    };
    let mut told = Told::by(KEY.key());
    told.sip.word(DIGEST);
    told.sip.word(alone);
    match parameters.is_null() {
        true => told.sip.word(NONE),
        false => unsafe { told.value(parameters, 1)? },
    }
    Some(told.sip.finish())
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

/// What was told so far, and what may still be looked at.
struct Told {
    sip: Sip,
    key: (u64, u64),
    bytes: usize,
    values: usize,
}

impl Told {
    fn by(key: (u64, u64)) -> Self {
        Self {
            sip: Sip::new(key),
            key,
            bytes: MOST_BYTES,
            values: MOST_VALUES,
        }
    }

    /// One value more; None where it is too much, or not certain to be told the same way again. What most calls are made
    /// with is here, and all else apart.
    ///
    /// # Safety
    /// With the interpreter's lock held, on a live object.
    unsafe fn value(&mut self, value: *mut ffi::PyObject, depth: usize) -> Option<()> {
        self.values = self.values.checked_sub(1)?;
        if depth > MOST_DEPTH {
            return None;
        }
        // Only what is exactly of these types: a class of the program's could run its own code, or be more than it holds.
        unsafe {
            if ffi::PyLong_CheckExact(value) != 0 {
                let number = ffi::PyLong_AsLongLong(value);
                if number == -1 && !ffi::PyErr_Occurred().is_null() {
                    ffi::PyErr_Clear(); // beyond 64 bits
                    return None;
                }
                self.sip.word(INT);
                self.sip.word(number as u64);
                Some(())
            } else if ffi::PyUnicode_CheckExact(value) != 0 {
                let mut size = 0;
                let text = ffi::PyUnicode_AsUTF8AndSize(value, &raw mut size);
                if text.is_null() {
                    ffi::PyErr_Clear(); // half of a pair of surrogates
                    return None;
                }
                self.text(TEXT, std::slice::from_raw_parts(text.cast(), size as usize))
            } else if ffi::PyTuple_CheckExact(value) != 0 {
                let length = ffi::PyTuple_Size(value);
                self.sip.word(sized(ROW, length as usize));
                for at in 0..length {
                    self.value(ffi::PyTuple_GetItem(value, at), depth + 1)?;
                }
                Some(())
            } else if value == ffi::Py_None() {
                self.sip.word(NONE);
                Some(())
            } else {
                let py = Python::assume_attached();
                self.other(&Bound::from_borrowed_ptr(py, value), depth)
            }
        }
    }

    /// As `value`, of all other kinds.
    #[cold]
    #[inline(never)]
    fn other(&mut self, value: &Bound<'_, PyAny>, depth: usize) -> Option<()> {
        if let Ok(truth) = value.cast_exact::<PyBool>() {
            self.sip.word(sized(BOOL, truth.is_true().into()));
        } else if let Ok(number) = value.cast_exact::<PyFloat>() {
            self.sip.word(FLOAT);
            self.sip.word(number.value().to_bits());
        } else if let Ok(bytes) = value.cast_exact::<PyBytes>() {
            self.text(BYTES, bytes.as_bytes())?;
        } else if let Ok(bytes) = value.cast_exact::<PyByteArray>() {
            self.text(BYTES, &bytes.to_vec())?;
        } else if let Ok(items) = value.cast_exact::<PyList>() {
            self.sip.word(sized(ROW, items.len()));
            for item in items.iter() {
                self.item(&item, depth)?;
            }
        } else if let Ok(items) = value.cast_exact::<PyDict>() {
            // In any order: a sum of what is pseudorandom.
            let mut sum = 0u64;
            for (name, item) in pairs(items) {
                sum = sum.wrapping_add(self.apart(&[name, item], depth)?);
            }
            self.sip.word(sized(PAIRS, items.len()));
            self.sip.word(sum);
        } else if let Ok(items) = value.cast_exact::<PySet>() {
            self.unordered(members(items)?.iter(), depth)?;
        } else if let Ok(items) = value.cast_exact::<PyFrozenSet>() {
            self.unordered(items.iter(), depth)?;
        } else {
            self.by_repr(value)?;
        }
        Some(())
    }

    fn item(&mut self, item: &Bound<'_, PyAny>, depth: usize) -> Option<()> {
        // SAFETY: a live object, with the interpreter's lock held.
        unsafe { self.value(item.as_ptr(), depth + 1) }
    }

    /// The digest of these alone.
    fn apart(&mut self, items: &[Bound<'_, PyAny>], depth: usize) -> Option<u64> {
        let around = std::mem::replace(&mut self.sip, Sip::new(self.key));
        let told = items.iter().try_for_each(|item| self.item(item, depth));
        let inside = std::mem::replace(&mut self.sip, around);
        told.map(|()| inside.finish())
    }

    fn text(&mut self, kind: u64, bytes: &[u8]) -> Option<()> {
        self.bytes = self.bytes.checked_sub(bytes.len())?;
        self.sip.word(sized(kind, bytes.len()));
        self.sip.bytes(bytes);
        Some(())
    }

    fn unordered<'py>(
        &mut self,
        items: impl Iterator<Item = Bound<'py, PyAny>>,
        depth: usize,
    ) -> Option<()> {
        let mut sum = 0u64;
        let mut count = 0;
        for item in items {
            sum = sum.wrapping_add(self.apart(&[item], depth)?);
            count += 1;
        }
        self.sip.word(sized(SET, count));
        self.sip.word(sum);
        Some(())
    }

    /// By its `repr`, where that is the standard library's own. A time zone of the program's would be asked for its own.
    fn by_repr(&mut self, value: &Bound<'_, PyAny>) -> Option<()> {
        let of = value.get_type();
        let (module, name) = (of.module().ok()?, of.name().ok()?);
        let (module, name) = (module.to_cow().ok()?, name.to_cow().ok()?);
        if !BY_REPR.contains(&(&*module, &*name)) {
            return None;
        }
        let zone = value.getattr("tzinfo").ok();
        if let Some(zone) = zone.filter(|zone| !zone.is_none()) {
            let module = zone.get_type().module().ok()?;
            if !["datetime", "zoneinfo"].contains(&&*module.to_cow().ok()?) {
                return None;
            }
        }
        let text = value.repr().ok()?;
        let text = text.to_cow().ok()?;
        self.text(REPR, name.as_bytes())?;
        self.text(TEXT, text.as_bytes())
    }
}
