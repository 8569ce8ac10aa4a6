//! `TraceRequest`: a request that a server handles, from its head to the end of its answer: a job and a span in it.
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use contend_core::ctrace::clock::ticks;
use contend_core::ctrace::format::{Event, event, sum};
use contend_core::ctrace::ring::current;
use contend_core::ctrace::session;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString, PyTuple};

use super::callable::{begin_group, end_group};
use super::marks::{id, new_job};

/// Bytes of what two ends of a connection know it by; a longer one costs an allocation.
const MOST_KNOWN: usize = 128;

/// See `_native.pyi`.
#[pyclass(frozen, module = "contend._native")]
pub struct TraceRequest {
    name: u32,
    number: u32,
    /// Where it was begun on record, 0 nowhere.
    session: AtomicU32,
}

/// Of "http" and "status": a name keeps its id.
fn names() -> [u32; 2] {
    static NAMES: OnceLock<[u32; 2]> = OnceLock::new();
    *NAMES.get_or_init(|| ["http", "status"].map(session::name))
}

impl TraceRequest {
    /// Its span and its job end; `told` is an event beside, `failed` by an exception.
    pub fn close(&self, told: Option<Event>, failed: bool) {
        let session = self.session.swap(0, Ordering::Relaxed);
        if session == 0 || current() != session {
            return;
        }
        let now = ticks();
        let ended = Event::new(now, event::END, self.name, failed.into());
        let job = Event::new(now, event::JOB_END, self.name, self.number);
        let events = [ended, told.unwrap_or(job), job];
        end_group(session, &events[..2 + usize::from(told.is_some())]);
    }

    /// From its head on, by the id of its name; with its flow from who asked.
    pub fn begin(name: u32, flow: Option<u64>) -> Self {
        let number = new_job();
        let mut request = Self {
            name,
            number,
            session: AtomicU32::new(0),
        };
        let session = current();
        if session == 0 {
            return request;
        }
        let now = ticks();
        let whole = flow.unwrap_or(0);
        let events = [
            Event::new(now, event::JOB_BEGIN, name, number),
            Event::new(now, event::BEGIN, name, 0),
            Event::new(now, event::FLOW_IN, names()[0], whole as u32),
            Event::new(whole, event::INT, 0, 0),
        ];
        let count = if flow.is_some() { 4 } else { 2 };
        if begin_group(session, &events[..count], 1) {
            request.session = AtomicU32::new(session);
        }
        request
    }

    /// With that status, such as "404 Not Found" or 404; anything else is not told.
    pub fn answered(&self, status: Option<&Bound<'_, PyAny>>) {
        let code = status.and_then(code_of);
        self.close(
            code.map(|code| Event::new(code, event::INT, names()[1], 0)),
            false,
        );
    }
}

#[pymethods]
impl TraceRequest {
    #[new]
    fn new(
        name: &Bound<'_, PyString>,
        client: &Bound<'_, PyAny>,
        port: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let name = id(name)?;
        let flow = match current() {
            0 => None,
            _ => flow(client, port),
        };
        Ok(Self::begin(name, flow))
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (kind, _value, _traceback, /))]
    fn __exit__(
        &self,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) {
        self.close(None, !kind.is_none());
    }

    /// See `answered`.
    fn end(&self, status: &Bound<'_, PyAny>) {
        self.answered(Some(status));
    }
}

/// The first three characters, as a number.
fn code(text: &[u8]) -> Option<u64> {
    let digits = &text[..text.len().min(3)];
    let number = |all: u64, digit: &u8| all * 10 + u64::from(digit - b'0');
    let right = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    right.then(|| digits.iter().fold(0, number))
}

/// Of a status, a text mostly.
fn code_of(status: &Bound<'_, PyAny>) -> Option<u64> {
    // SAFETY: a live object, with the interpreter's lock held; the text lives as long as it.
    unsafe {
        if ffi::PyUnicode_CheckExact(status.as_ptr()) != 0 {
            let mut size = 0;
            let text = ffi::PyUnicode_AsUTF8AndSize(status.as_ptr(), &raw mut size);
            if !text.is_null() {
                return code(std::slice::from_raw_parts(text.cast(), size as usize));
            }
            ffi::PyErr_Clear();
        }
    }
    text(status).and_then(|text| code(text.as_bytes()))
}

#[cold]
#[inline(never)]
fn text(of: &Bound<'_, PyAny>) -> Option<String> {
    if let Ok(text) = of.cast::<PyString>() {
        return text.to_cow().ok().map(|text| text.into_owned());
    }
    if of.is_exact_instance_of::<PyInt>() {
        return of.extract::<i64>().ok().map(|number| number.to_string());
    }
    of.str()
        .ok()
        .map(|text| text.to_string_lossy().into_owned())
}

/// "http ADDRESS:FROM>PORT" to where there is room for it: without `fmt`, which costs more than all else of a request here.
fn write(left: &mut &mut [u8], address: &[u8], from: u16, port: u16) -> Option<()> {
    left.write_all(b"http ").ok()?;
    left.write_all(address).ok()?;
    for (before, number) in [(b':', from), (b'>', port)] {
        let mut text = [0; 6];
        let mut at = text.len();
        let mut rest = number;
        loop {
            at -= 1;
            text[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        text[at - 1] = before;
        left.write_all(&text[at - 1..]).ok()?;
    }
    Some(())
}

/// Whether `flow` may tell anything of that end of a connection.
pub fn is_near(client: &Bound<'_, PyAny>) -> bool {
    let address = client.cast::<PyTuple>().ok();
    let address = address.and_then(|client| client.get_borrowed_item(0).ok());
    let address = address
        .as_ref()
        .and_then(|address| address.cast::<PyString>().ok());
    address.is_some_and(|address| address.to_cow().is_ok_and(|address| is_loopback(&address)))
}

fn is_loopback(address: &str) -> bool {
    address.starts_with("127.") || address == "::1"
}

/// What both ends of a connection over the loopback device know it by, as `http_names.flow` tells it; None for others.
#[inline(never)]
pub fn flow(client: &Bound<'_, PyAny>, port: &Bound<'_, PyAny>) -> Option<u64> {
    let client = client
        .cast::<PyTuple>()
        .ok()
        .filter(|client| client.len() >= 2)?;
    let address = client.get_borrowed_item(0).ok()?;
    let address = address.cast::<PyString>().ok()?;
    let address = address.to_cow().ok()?;
    if !is_loopback(&address) {
        return None;
    }
    let from = client.get_borrowed_item(1).ok()?;
    let mut known = [0; MOST_KNOWN];
    let mut left = &mut known[..];
    if let (Ok(from), Ok(port)) = (from.extract::<u16>(), port.extract::<u16>()) {
        if write(&mut left, address.as_bytes(), from, port).is_some() {
            let used = MOST_KNOWN - left.len();
            return Some(sum(&known[..used]));
        }
    }
    let known = format!("http {address}:{}>{}", text(&from)?, text(port)?);
    Some(sum(known.as_bytes()))
}

/// Into the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TraceRequest>()
}
