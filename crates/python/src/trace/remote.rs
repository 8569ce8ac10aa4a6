//! Calls that leave the process, as spans of kind remote: a driver's statement by its text, and what has one name.
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use contend_core::ctrace::clock::ticks;
use contend_core::ctrace::format::{Event, event};
use contend_core::ctrace::ring::{current, local};
use contend_core::ctrace::session;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

use super::callable::{PyVectorcall_NARGS, Traced, begin_group, end, end_group};
use super::digest::{self, Known};

/// Statements that are remembered; beyond, all are learnt again.
const MOST_STATEMENTS: usize = 4096;
/// Of them, those that are found by the address of their text: a driver gets the same object again and again.
const FAST: usize = 64;

/// The text of an argument, and its id in one session's file: session << 32 | id.
struct Text {
    text: Box<str>,
    id: AtomicU64,
}

impl Text {
    fn new(text: &str) -> Self {
        Self {
            text: text.into(),
            id: AtomicU64::new(0),
        }
    }

    /// None while too much waits to be written.
    fn id(&self, session: u32) -> Option<u32> {
        let known = self.id.load(Ordering::Relaxed);
        if (known >> 32) as u32 == session {
            return Some(known as u32);
        }
        self.learn(session)
    }

    #[cold]
    #[inline(never)]
    fn learn(&self, session: u32) -> Option<u32> {
        let id = session::value(&self.text)?;
        self.id
            .store(u64::from(session) << 32 | u64::from(id), Ordering::Relaxed);
        Some(id)
    }
}

/// What a span of one statement is called, and what is said of it. An object of Python's, so that a dict can hold it.
#[pyclass(frozen, module = "contend._native")]
struct Statement {
    /// What it was learnt by.
    text: Py<PyAny>,
    name: u32,
    /// Where the name leaves something out.
    whole: Option<Text>,
    digest: Known,
}

/// What is known of the statements of one driver.
pub struct Statements {
    /// Of `known`, at the place of its text's address: counted references, or null. Used with the interpreter's lock
    /// held, and not where there is none.
    fast: UnsafeCell<[*mut PyObject; FAST]>,
    /// By the statement, a `Statement`.
    known: Py<PyDict>,
    learn: *mut PyObject,
}

/// Names of the arguments, and the one value of `kind`. In as few cache lines as it takes.
#[repr(align(64))]
struct Words {
    kind: u32,
    statement: u32,
    rows: u32,
    arguments: u32,
    remote: Text,
    rowcount: Py<PyString>,
}

fn words(py: Python<'_>) -> &'static Words {
    static WORDS: PyOnceLock<Words> = PyOnceLock::new();
    let words = WORDS.get_or_init(py, || Words {
        kind: session::name("kind"),
        statement: session::name("statement"),
        rows: session::name("rows"),
        arguments: session::name("arguments"),
        remote: Text::new("remote"),
        rowcount: PyString::intern(py, "rowcount").unbind(),
    });
    // SAFETY: a static that is never unset.
    unsafe { &*ptr::from_ref(words) }
}

impl Statements {
    /// `learn(statement)` gives name and text.
    pub fn new(py: Python<'_>, learn: Bound<'_, PyAny>) -> *mut Self {
        Box::into_raw(Box::new(Self {
            fast: UnsafeCell::new([ptr::null_mut(); FAST]),
            known: PyDict::new(py).unbind(),
            learn: learn.into_ptr(),
        }))
    }

    /// For the collector of garbage: what it refers to that may refer to others.
    ///
    /// # Safety
    /// On one of these, or null.
    pub unsafe fn learner(this: *mut Self) -> *mut PyObject {
        match this.is_null() {
            true => ptr::null_mut(),
            false => unsafe { (*this).learn },
        }
    }

    /// # Safety
    /// On one of these that nobody uses any more, or null; with the interpreter's lock held.
    pub unsafe fn free(this: *mut Self) {
        if !this.is_null() {
            unsafe {
                let this = Box::from_raw(this);
                ffi::Py_XDECREF(this.learn);
                for known in *this.fast.get() {
                    ffi::Py_XDECREF(known);
                }
            }
        }
    }

    /// What is known of a statement; None where it cannot be told what it is.
    unsafe fn of<'py>(
        this: *mut Self,
        statement: &Bound<'py, PyAny>,
    ) -> Option<Bound<'py, Statement>> {
        let place = Self::place(this, statement.as_ptr());
        // SAFETY: the caller's; a `Statement` is kept there, or nothing.
        unsafe {
            if !cfg!(Py_GIL_DISABLED) && !(*place).is_null() {
                let known = Bound::from_borrowed_ptr(statement.py(), *place);
                let known = known.cast_into_unchecked::<Statement>();
                if known.get().text.as_ptr() == statement.as_ptr() {
                    return Some(known);
                }
            }
            let known = Self::find(this, statement).ok()?;
            if !cfg!(Py_GIL_DISABLED) && known.get().text.as_ptr() == statement.as_ptr() {
                let kept = known.clone().into_ptr();
                ffi::Py_XDECREF(std::mem::replace(&mut *place, kept));
            }
            Some(known)
        }
    }

    fn place(this: *mut Self, statement: *mut PyObject) -> *mut *mut PyObject {
        let at = statement as usize;
        // SAFETY: it lives as long as the callable that is called. Objects are 16 bytes apart at least.
        unsafe {
            (*this)
                .fast
                .get()
                .cast::<*mut PyObject>()
                .add((at >> 4 ^ at >> 10) % FAST)
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn find<'py>(
        this: *mut Self,
        statement: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Statement>> {
        let py = statement.py();
        // SAFETY: it lives as long as the callable that is called.
        let known = unsafe { (*this).known.bind(py) };
        if let Some(found) = known.get_item(statement)? {
            return Ok(found.cast_into()?);
        }
        // SAFETY: as above.
        let learn = unsafe { Bound::from_borrowed_ptr(py, (*this).learn) };
        // Runs Python: others may learn meanwhile.
        let (name, text): (String, String) = learn.call1((statement,))?.extract()?;
        let learnt = Statement {
            text: statement.clone().unbind(),
            name: session::name(&name),
            whole: (name != text).then(|| Text::new(&text)),
            digest: Known::new(),
        };
        let learnt = Bound::new(py, learnt)?;
        if known.len() >= MOST_STATEMENTS {
            known.clear();
        }
        known.set_item(statement, &learnt)?;
        Ok(learnt)
    }
}

/// Record the begin of a span of kind remote, the id of the `whole` text beside; whether it was recorded.
#[inline(never)]
fn begin(words: &Words, session: u32, name: u32, whole: Option<u32>) -> bool {
    let now = ticks();
    let argument = |key, id: Option<u32>| Event::new(now, event::ARG, key, id.unwrap_or(0));
    let (kind, whole) = (words.remote.id(session), (words.statement, whole));
    let mut events = [
        Event::new(now, event::BEGIN, name, 0),
        argument(words.kind, kind),
        argument(whole.0, whole.1),
    ];
    if kind.is_none() {
        events[1] = events[2];
    }
    let count = 1 + usize::from(kind.is_some()) + usize::from(whole.1.is_some());
    begin_group(session, &events[..count], 0)
}

/// A call that has one name.
pub unsafe extern "C-unwind" fn call(
    callable: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: CPython calls this on a Traced, with arguments as by PEP 590, which are handed on as they are.
    unsafe {
        let this = callable.cast::<Traced>();
        let session = current();
        let name = (*this).name;
        let recorded = session != 0 && begin(words(Python::assume_attached()), session, name, None);
        let result = ((*this).run)((*this).inner, args, nargsf, kwnames);
        if recorded {
            end(local(), session, name, result.is_null());
        }
        result
    }
}

/// A driver's (self, cursor, statement, parameters…): of the parameters only a digest is told.
pub unsafe extern "C-unwind" fn call_statement(
    callable: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as above.
    unsafe {
        let this = callable.cast::<Traced>();
        let run = || ((*this).run)((*this).inner, args, nargsf, kwnames);
        let session = current();
        if session == 0 {
            return run();
        }
        let py = Python::assume_attached();
        let given = |at, name| argument(args, nargsf, kwnames, at, name);
        let statement = given(2, c"statement");
        if statement.is_null() || ffi::PyUnicode_Check(statement) == 0 {
            return run();
        }
        // Kept over the call: all may be forgotten meanwhile.
        let statement_object = Bound::from_borrowed_ptr(py, statement);
        let Some(known) = Statements::of((*this).statements, &statement_object) else {
            return run();
        };
        let (words, known) = (words(py), known.get());
        let (name, whole) = (
            known.name,
            known.whole.as_ref().and_then(|text| text.id(session)),
        );
        let recorded = begin(words, session, name, whole);
        let result = run();
        if !recorded {
            return result;
        }
        if result.is_null() {
            end(local(), session, name, true);
            return result;
        }
        let mut events = [Event::new(ticks(), event::END, name, 0); 3];
        let mut count = 1;
        if let Some(rows) = rows(words, given(1, c"cursor")) {
            events[count] = Event::new(rows, event::INT, words.rows, 0);
            count += 1;
        }
        if let Some(digest) = digest(known, statement, given(3, c"parameters")) {
            events[count] = Event::new(digest, event::INT, words.arguments, 0);
            count += 1;
        }
        end_group(session, &events[..count]);
        result
    }
}

/// Of a statement and its parameters, as one; a statement without has none, only its context.
unsafe fn digest(
    known: &Statement,
    statement: *mut PyObject,
    parameters: *mut PyObject,
) -> Option<u64> {
    unsafe {
        let holds = !parameters.is_null()
            && (ffi::PyTuple_Check(parameters) != 0
                || ffi::PyDict_Check(parameters) != 0
                || ffi::PyList_Check(parameters) != 0);
        let parameters = if holds { parameters } else { ptr::null_mut() };
        (ffi::PyUnicode_CheckExact(statement) != 0)
            .then(|| digest::of_statement(statement, parameters, &known.digest))?
    }
}

/// How many a cursor tells, if it does.
unsafe fn rows(words: &Words, cursor: *mut PyObject) -> Option<u64> {
    unsafe {
        if cursor.is_null() {
            return None;
        }
        let found = ffi::PyObject_GetAttr(cursor, words.rowcount.as_ptr());
        let rows = match !found.is_null() && ffi::PyLong_Check(found) != 0 {
            true => ffi::PyLong_AsLongLong(found),
            false => -1,
        };
        if rows == -1 && !ffi::PyErr_Occurred().is_null() {
            ffi::PyErr_Clear(); // not there, or beyond a number: not told
        }
        ffi::Py_XDECREF(found);
        u64::try_from(rows).ok()
    }
}

/// The argument at that position or of that name, borrowed; null if there is none.
unsafe fn argument(
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
    at: usize,
    name: &CStr,
) -> *mut PyObject {
    unsafe {
        let count = PyVectorcall_NARGS(nargsf);
        match at < count {
            true => *args.add(at),
            false => named(args.add(count), kwnames, name),
        }
    }
}

#[cold]
#[inline(never)]
unsafe fn named(args: *const *mut PyObject, kwnames: *mut PyObject, name: &CStr) -> *mut PyObject {
    unsafe {
        let named = match kwnames.is_null() {
            true => 0,
            false => ffi::PyTuple_Size(kwnames),
        };
        for place in 0..named {
            let key = ffi::PyTuple_GetItem(kwnames, place);
            if ffi::PyUnicode_CompareWithASCIIString(key, name.as_ptr()) == 0 {
                return *args.add(place as usize);
            }
        }
        ptr::null_mut()
    }
}
