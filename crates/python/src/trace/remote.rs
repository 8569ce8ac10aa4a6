//! Calls that leave the process, as spans of kind remote: a driver's statement by its text, and what has one name.
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use contend_core::ctrace::clock::ticks;
use contend_core::ctrace::format::{Event, event};
use contend_core::ctrace::ring::{current, local};
use contend_core::ctrace::{session, times};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

use super::callable::{PyVectorcall_NARGS, Traced, end};
use super::digest::{self, Known};

/// Statements that are remembered; beyond, all are learnt again.
const MOST_STATEMENTS: usize = 4096;

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
        let id = session::value(&self.text)?;
        self.id
            .store(u64::from(session) << 32 | u64::from(id), Ordering::Relaxed);
        Some(id)
    }
}

/// What a span of one statement is called, and what is said of it. An object of Python's, so that a dict can hold it.
#[pyclass(frozen, module = "contend._native")]
struct Statement {
    name: u32,
    /// Where the name leaves something out.
    whole: Option<Text>,
    digest: Mutex<Known>,
}

/// What is known of the statements of one driver.
pub struct Statements {
    /// By the statement, a `Statement`.
    known: Py<PyDict>,
    learn: *mut PyObject,
}

/// Names of the arguments, and the one value of `kind`.
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
            }
        }
    }

    /// What is known of a statement; an error where it cannot be told what it is.
    unsafe fn of<'py>(
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
            name: session::name(&name),
            whole: (name != text).then(|| Text::new(&text)),
            digest: Mutex::new(None),
        };
        let learnt = Bound::new(py, learnt)?;
        if known.len() >= MOST_STATEMENTS {
            known.clear();
        }
        known.set_item(statement, &learnt)?;
        Ok(learnt)
    }
}

/// Most events of a BEGIN here: it, what is asked for beside, two arguments.
const MOST: usize = 5;

/// Record the begin of a span of kind remote, the id of the `whole` text beside; whether it was recorded.
fn begin(words: &Words, session: u32, name: u32, whole: Option<u32>) -> bool {
    let mut events = [Event::new(ticks(), event::BEGIN, name, 0); MOST];
    let mut count = 1;
    if times::asked() {
        let (group, len) = times::beside(events[0]);
        events[..len].copy_from_slice(&group[..len]);
        count = len;
    }
    let now = events[0].ticks;
    for (key, text) in [
        (words.kind, words.remote.id(session)),
        (words.statement, whole),
    ] {
        if let Some(id) = text {
            events[count] = Event::new(now, event::ARG, key, id);
            count += 1;
        }
    }
    local().group(session, &events[..count])
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
        let Ok(known) = Statements::of((*this).statements, &statement_object) else {
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
        let mut events = [Event::new(ticks(), event::END, name, 0); MOST];
        let mut count = 1;
        if times::asked() {
            let (group, len) = times::beside(events[0]);
            events[..len].copy_from_slice(&group[..len]);
            count = len;
        }
        if let Some(rows) = rows(words, given(1, c"cursor")) {
            events[count] = Event::new(rows, event::INT, words.rows, 0);
            count += 1;
        }
        if let Some(digest) = digest(py, known, statement, given(3, c"parameters")) {
            events[count] = Event::new(digest, event::INT, words.arguments, 0);
            count += 1;
        }
        local().close_group(session, &events[..count]);
        result
    }
}

/// Of a statement and its parameters, as one; a statement without has none, only its context.
unsafe fn digest(
    py: Python<'_>,
    known: &Statement,
    statement: *mut PyObject,
    parameters: *mut PyObject,
) -> Option<u64> {
    unsafe {
        let holds = !parameters.is_null()
            && (ffi::PyDict_Check(parameters) != 0
                || ffi::PyTuple_Check(parameters) != 0
                || ffi::PyList_Check(parameters) != 0);
        let parameters = match holds {
            true => Bound::from_borrowed_ptr(py, parameters),
            false => py.None().into_bound(py),
        };
        let statement = Bound::from_borrowed_ptr(py, statement);
        let statement = statement.cast_exact::<PyString>().ok()?;
        let held = || known.digest.lock().unwrap_or_else(PoisonError::into_inner);
        let mut alone = *held();
        let digest = digest::of_statement(statement, &parameters, &mut alone);
        *held() = alone;
        digest
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
        ffi::PyErr_Clear(); // not there, or beyond a number: not told
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
        if at < count {
            return *args.add(at);
        }
        let named = match kwnames.is_null() {
            true => 0,
            false => ffi::PyTuple_Size(kwnames),
        };
        for place in 0..named {
            let key = ffi::PyTuple_GetItem(kwnames, place);
            if ffi::PyUnicode_CompareWithASCIIString(key, name.as_ptr()) == 0 {
                return *args.add(count + place as usize);
            }
        }
        ptr::null_mut()
    }
}
