//! Calls that leave the process, as spans of kind remote: a driver's statement by its text, and what has one name.
use std::cell::Cell;
use std::ffi::CStr;
use std::ptr;
use std::rc::Rc;

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

/// The text of an argument, and its id in one session's file.
struct Text {
    text: Box<str>,
    id: Cell<(u32, u32)>,
}

impl Text {
    fn new(text: &str) -> Self {
        Self {
            text: text.into(),
            id: Cell::new((0, 0)),
        }
    }

    /// None while too much waits to be written.
    fn id(&self, session: u32) -> Option<u32> {
        let (known, id) = self.id.get();
        if known == session {
            return Some(id);
        }
        let id = session::value(&self.text)?;
        self.id.set((session, id));
        Some(id)
    }
}

/// What a span of one statement is called, and what is said of it.
struct Statement {
    name: u32,
    /// Where the name leaves something out.
    whole: Option<Text>,
    digest: Cell<Known>,
}

/// What is known of the statements of one driver. Used with the interpreter's lock held.
pub struct Statements {
    /// By the statement: a number in `all`.
    known: Py<PyDict>,
    all: Vec<Rc<Statement>>,
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
// SAFETY: its cell is used with the interpreter's lock held only.
unsafe impl Sync for Words {}

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
            all: Vec::new(),
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

    /// The number of a statement in `all`; None where it cannot be told what it is.
    unsafe fn number(this: *mut Self, py: Python<'_>, statement: *mut PyObject) -> Option<usize> {
        unsafe {
            let found = ffi::PyDict_GetItemWithError((*this).known.as_ptr(), statement); // borrowed
            if !found.is_null() {
                return Some(ffi::PyLong_AsSize_t(found));
            }
            let learn = Bound::from_borrowed_ptr(py, (*this).learn);
            let statement = Bound::from_borrowed_ptr(py, statement);
            // Runs Python: others may learn meanwhile.
            let (name, text): (String, String) = learn.call1((&statement,)).ok()?.extract().ok()?;
            let known = (*this).known.bind(py);
            if (*this).all.len() >= MOST_STATEMENTS {
                known.clear();
                (*this).all.clear();
            }
            (*this).all.push(Rc::new(Statement {
                name: session::name(&name),
                whole: (name != text).then(|| Text::new(&text)),
                digest: Cell::new(None),
            }));
            let number = (*this).all.len() - 1;
            known.set_item(statement, number).ok()?;
            Some(number)
        }
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
        let Some(number) = Statements::number((*this).statements, py, statement) else {
            ffi::PyErr_Clear();
            return run();
        };
        let words = words(py);
        let statements = &*(*this).statements;
        // Kept over the call: all may be forgotten meanwhile.
        let Some(known) = statements.all.get(number).cloned() else {
            return run();
        };
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
        let (group, mut count) = times::beside(Event::new(ticks(), event::END, name, 0));
        let mut events = [group[0]; MOST];
        events[..count].copy_from_slice(&group[..count]);
        if let Some(rows) = rows(words, given(1, c"cursor")) {
            events[count] = Event::new(rows, event::INT, words.rows, 0);
            count += 1;
        }
        if let Some(digest) = digest(py, &known, statement, given(3, c"parameters")) {
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
        let mut alone = known.digest.get();
        let digest = digest::of_statement(statement, &parameters, &mut alone);
        known.digest.set(alone);
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
