//! A server's method that handles one request: a job and a span, from its head to the last byte of the answer that the
//! server takes. In native code, since a function of Python's around it costs more than all that is recorded.
use contend_core::ctrace::ring::current;
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString, PyTuple};

use super::callable::{PyVectorcall_NARGS, Traced};
use super::requests::TraceRequest;

/// From an argument of the method to what is asked for.
enum Step {
    Attribute(Py<PyString>),
    /// Of a tuple; of what is none there is nothing.
    Item(usize),
    Call(Py<PyAny>),
}

/// The position of an argument, and the way from there.
struct Way {
    from: usize,
    steps: Vec<Step>,
}

/// Where a method finds what is told of a request.
pub struct Handler {
    /// Names by (method, path), and who makes them.
    known: Py<PyDict>,
    served: Py<PyAny>,
    method: Way,
    path: Way,
    client: Way,
    port: Way,
    status: Way,
}

impl Way {
    fn new(told: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let step = |step: Bound<'_, PyAny>| -> PyResult<Step> {
            if let Ok(name) = step.cast::<PyString>() {
                let name = PyString::intern(step.py(), name.to_cow()?.as_ref());
                Ok(Step::Attribute(name.unbind()))
            } else if step.is_instance_of::<PyInt>() {
                Ok(Step::Item(step.extract()?))
            } else if step.is_callable() {
                Ok(Step::Call(step.unbind()))
            } else {
                Err(PyTypeError::new_err(
                    "a step is a name, a number or what can be called",
                ))
            }
        };
        Ok(Self {
            from: told.get_item(0)?.extract()?,
            steps: told.iter().skip(1).map(step).collect::<PyResult<_>>()?,
        })
    }

    /// None where it is not to be had; an error only of what no program may miss, such as KeyboardInterrupt.
    fn end<'py>(
        &self,
        py: Python<'py>,
        args: &[*mut PyObject],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(&first) = args.get(self.from) else {
            return Ok(None);
        };
        // SAFETY: an argument of a call that lasts.
        let mut at = unsafe { Bound::from_borrowed_ptr(py, first) };
        for step in &self.steps {
            let next = match step {
                Step::Attribute(name) => at.getattr(name),
                Step::Item(number) => match at.cast::<PyTuple>() {
                    Ok(tuple) if *number < tuple.len() => tuple.get_item(*number),
                    _ => return Ok(None),
                },
                Step::Call(function) => function.bind(py).call1((&at,)),
            };
            at = match next {
                Ok(next) => next,
                Err(error) if error.is_instance_of::<PyException>(py) => return Ok(None),
                Err(error) => return Err(error),
            };
        }
        Ok(Some(at))
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
            method: Way::new(&method)?,
            path: Way::new(&path)?,
            client: Way::new(&client)?,
            port: Way::new(&port)?,
            status: Way::new(&status)?,
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
        let method = self.method.end(py, args)?.unwrap_or_else(none);
        let path = self.path.end(py, args)?.unwrap_or_else(none);
        let key = PyTuple::new(py, [&method, &path])?;
        let known = self.known.bind(py);
        let name = match known.get_item(&key)? {
            Some(name) => name,
            None => self.served.bind(py).call1((method.str()?, path.str()?))?,
        };
        let client = self.client.end(py, args)?.unwrap_or_else(none);
        let port = self.port.end(py, args)?.unwrap_or_else(none);
        TraceRequest::begin(name.cast::<PyString>()?, &client, &port)
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
            Ok(request) => request,
            Err(error) if error.is_instance_of::<PyException>(py) => return run(),
            Err(error) => {
                error.restore(py);
                return std::ptr::null_mut();
            }
        };
        let result = run();
        if result.is_null() {
            request.close(None, true);
            return result;
        }
        match handler.status.end(py, given) {
            Ok(status) => request.answered(status.as_ref()),
            Err(error) => {
                request.close(None, false);
                ffi::Py_DECREF(result);
                error.restore(py);
                return std::ptr::null_mut();
            }
        }
        result
    }
}
