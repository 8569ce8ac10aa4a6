//! A server's method that handles one request: a job and a span, from its head to the last byte of the answer that the
//! server takes. In native code, since a function of Python's around it costs more than all that is recorded.
//!
//! What was found out of a path or of a connection is kept ([`super::handled`]): to find it out again takes dozens of
//! cache lines of Python's that nothing else of a request needs.
use std::ptr;

use contend_core::ctrace::ring::current;
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString, PyTuple};

use super::callable::{PyVectorcall_NARGS, Traced};
use super::handled::{Flows, Names};
use super::marks::id;
use super::requests::{TraceRequest, flow, is_near};

/// From an argument of the method to what is asked for.
enum Step {
    Attribute(Py<PyString>),
    /// Of a tuple; of what is none there is nothing.
    Item(usize),
    Call(Py<PyAny>),
    /// An attribute, and who is called where there is none: it may leave it there for the next time.
    Kept(Py<PyString>, Py<PyAny>),
}

/// The position of an argument, and the way from there.
struct Way {
    from: usize,
    steps: Vec<Step>,
}

/// Two ways: as far as they go together they are gone once.
struct Fork {
    together: Way,
    one: Vec<Step>,
    /// From an argument, where they have nothing in common.
    other: Way,
    common: bool,
}

/// Where a method finds what is told of a request.
pub struct Handler {
    /// Names by (method, path), and who makes them.
    known: Py<PyDict>,
    served: Py<PyAny>,
    /// To method and path.
    request: Fork,
    /// To client and port.
    connection: Fork,
    status: Way,
    names: Names,
    flows: Flows,
}

/// What the way leads to, if it leads anywhere; an error only of what no program may miss, such as KeyboardInterrupt.
type Found<'py> = PyResult<Option<Bound<'py, PyAny>>>;

impl Step {
    fn new(told: &Bound<'_, PyAny>) -> PyResult<Self> {
        let interned = |name: &Bound<'_, PyString>| -> PyResult<Py<PyString>> {
            Ok(PyString::intern(told.py(), name.to_cow()?.as_ref()).unbind())
        };
        if let Ok(name) = told.cast::<PyString>() {
            Ok(Self::Attribute(interned(name)?))
        } else if let Ok(kept) = told.cast::<PyTuple>() {
            let (name, function): (Bound<'_, PyString>, Py<PyAny>) = kept.extract()?;
            Ok(Self::Kept(interned(&name)?, function))
        } else if told.is_instance_of::<PyInt>() {
            Ok(Self::Item(told.extract()?))
        } else if told.is_callable() {
            Ok(Self::Call(told.clone().unbind()))
        } else {
            Err(PyTypeError::new_err(
                "a step is a name, a number, what can be called, or a name and that",
            ))
        }
    }

    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Attribute(one), Self::Attribute(other)) => one.is(other),
            (Self::Item(one), Self::Item(other)) => one == other,
            (Self::Call(one), Self::Call(other)) => one.is(other),
            (Self::Kept(one, _), Self::Kept(other, _)) => one.is(other),
            _ => false,
        }
    }
}

impl Way {
    fn new(told: &Bound<'_, PyTuple>) -> PyResult<Self> {
        Ok(Self {
            from: told.get_item(0)?.extract()?,
            steps: told
                .iter()
                .skip(1)
                .map(|step| Step::new(&step))
                .collect::<PyResult<_>>()?,
        })
    }

    fn end<'py>(&self, py: Python<'py>, args: &[*mut PyObject]) -> Found<'py> {
        let Some(&first) = args.get(self.from) else {
            return Ok(None);
        };
        // SAFETY: an argument of a call that lasts.
        follow(unsafe { Bound::from_borrowed_ptr(py, first) }, &self.steps)
    }
}

/// None with an error set.
fn attribute<'py>(of: &Bound<'py, PyAny>, name: &Py<PyString>) -> Option<Bound<'py, PyAny>> {
    // SAFETY: live objects; a new reference, or null with an error set.
    unsafe {
        let found = ffi::PyObject_GetAttr(of.as_ptr(), name.as_ptr());
        Bound::from_owned_ptr_or_opt(of.py(), found)
    }
}

fn kept<'py>(of: &Bound<'py, PyAny>, name: &Py<PyString>) -> Option<Bound<'py, PyAny>> {
    let found = attribute(of, name);
    if found.is_none() {
        drop(PyErr::fetch(of.py()));
    }
    found
}

#[inline(never)]
fn follow<'py>(mut at: Bound<'py, PyAny>, steps: &[Step]) -> Found<'py> {
    let py = at.py();
    for step in steps {
        let next = match step {
            Step::Attribute(name) => attribute(&at, name),
            Step::Item(number) => match at.cast::<PyTuple>() {
                Ok(tuple) if *number < tuple.len() => tuple.get_item(*number).ok(),
                _ => return Ok(None),
            },
            Step::Call(function) => match function.bind(py).call1((&at,)) {
                Ok(next) => Some(next),
                Err(error) => return missed(py, error),
            },
            Step::Kept(name, function) => match kept(&at, name) {
                Some(next) => Some(next),
                None => match function.bind(py).call1((&at,)) {
                    Ok(next) => Some(next),
                    Err(error) => return missed(py, error),
                },
            },
        };
        at = match next {
            Some(next) => next,
            None => return missed(py, PyErr::fetch(py)),
        };
    }
    Ok(Some(at))
}

#[cold]
#[inline(never)]
fn missed(py: Python<'_>, error: PyErr) -> Found<'_> {
    match error.is_instance_of::<PyException>(py) {
        true => Ok(None),
        false => Err(error),
    }
}

impl Fork {
    fn new(one: &Bound<'_, PyTuple>, other: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let (mut one, mut other) = (Way::new(one)?, Way::new(other)?);
        let common = one.from == other.from;
        let mut steps = Vec::new();
        if common {
            let both = one.steps.iter().zip(&other.steps);
            let count = both.take_while(|(one, other)| one.is(other)).count();
            steps = one.steps.drain(..count).collect();
            other.steps.drain(..count);
        }
        Ok(Self {
            together: Way {
                from: one.from,
                steps,
            },
            one: one.steps,
            other,
            common,
        })
    }

    /// Of what was found where the two go together.
    fn other<'py>(
        &self,
        at: Option<Bound<'py, PyAny>>,
        py: Python<'py>,
        args: &[*mut PyObject],
    ) -> Found<'py> {
        match (self.common, at) {
            (false, _) => self.other.end(py, args),
            (true, Some(at)) => follow(at, &self.other.steps),
            (true, None) => Ok(None),
        }
    }
}

impl Handler {
    /// Of (known, served, method, path, client, port, status).
    pub fn new(told: &Bound<'_, PyAny>) -> PyResult<*mut Self> {
        type Told<'py> = Bound<'py, PyTuple>;
        let (known, served, method, path, client, port, status): (
            Bound<'_, PyDict>,
            Bound<'_, PyAny>,
            Told<'_>,
            Told<'_>,
            Told<'_>,
            Told<'_>,
            Told<'_>,
        ) = told.extract()?;
        Ok(Box::into_raw(Box::new(Self {
            known: known.unbind(),
            served: served.unbind(),
            request: Fork::new(&method, &path)?,
            connection: Fork::new(&client, &port)?,
            status: Way::new(&status)?,
            names: Names::new(),
            flows: Flows::new(),
        })))
    }

    /// # Safety
    /// On one of these that nobody uses any more, or null; with the interpreter's lock held.
    pub unsafe fn free(this: *mut Self) {
        if !this.is_null() {
            drop(unsafe { Box::from_raw(this) });
        }
    }

    fn begin(&self, py: Python<'_>, args: &[*mut PyObject]) -> PyResult<TraceRequest> {
        let none = || py.None().into_bound(py);
        let request = self.request.together.end(py, args)?;
        let method = match &request {
            Some(request) => follow(request.clone(), &self.request.one)?,
            None => None,
        };
        let path = self.request.other(request, py, args)?;
        let (method, path) = (method.unwrap_or_else(none), path.unwrap_or_else(none));
        let name = match self.names.get(&method, &path) {
            Some(name) => name,
            None => self.name(&method, &path)?,
        };
        let mut told = None;
        if let Some(connection) = self.connection.together.end(py, args)? {
            if let Some(client) = follow(connection.clone(), &self.connection.one)? {
                told = match self.flows.get(&client) {
                    Some(told) => told,
                    None => self.flow(&client, connection, args)?,
                };
            }
        }
        Ok(TraceRequest::begin(name, told))
    }

    /// Not known here yet.
    #[cold]
    #[inline(never)]
    fn name(&self, method: &Bound<'_, PyAny>, path: &Bound<'_, PyAny>) -> PyResult<u32> {
        let py = path.py();
        let name = match self.known.bind(py).get_item((method, path))? {
            Some(name) => name,
            None => self.served.bind(py).call1((method.str()?, path.str()?))?,
        };
        let name = id(name.cast::<PyString>()?)?;
        self.names.put(method, path, name);
        Ok(name)
    }

    /// Of a connection that is new.
    #[cold]
    #[inline(never)]
    fn flow(
        &self,
        client: &Bound<'_, PyAny>,
        connection: Bound<'_, PyAny>,
        args: &[*mut PyObject],
    ) -> PyResult<Option<u64>> {
        let py = client.py();
        let mut told = None;
        // To ask for the port may take a system call.
        if is_near(client) {
            if let Some(port) = self.connection.other(Some(connection), py, args)? {
                told = flow(client, &port);
            }
        }
        self.flows.put(client, told);
        Ok(told)
    }
}

/// (self, …), as the server calls it.
pub unsafe extern "C-unwind" fn handle(
    callable: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: CPython calls this on a Traced of a handler, with arguments as by PEP 590, which are handed on as they are.
    unsafe {
        let this = callable.cast::<Traced>();
        let run = || ((*this).run)((*this).inner, args, nargsf, kwnames);
        if current() == 0 {
            return run();
        }
        let py = Python::assume_attached();
        let count = PyVectorcall_NARGS(nargsf);
        let given = match count {
            0 => &[],
            _ => std::slice::from_raw_parts(args, count),
        };
        let handler = &*(*this).handler;
        let request = match handler.begin(py, given) {
            Ok(request) => Some(request),
            Err(error) => match missed(py, error) {
                Ok(_) => None,
                Err(error) => return raised(py, error),
            },
        };
        let result = run();
        let Some(request) = request else {
            return result;
        };
        if result.is_null() {
            request.close(None, true);
            return result;
        }
        match handler.status.end(py, given) {
            Ok(status) => request.answered(status.as_ref()),
            Err(error) => {
                request.close(None, false);
                ffi::Py_DECREF(result);
                return raised(py, error);
            }
        }
        result
    }
}

#[cold]
#[inline(never)]
fn raised(py: Python<'_>, error: PyErr) -> *mut PyObject {
    error.restore(py);
    ptr::null_mut()
}
