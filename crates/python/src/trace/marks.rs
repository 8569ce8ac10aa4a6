//! Spans, instants, counters, flows and jobs: what a program says itself.
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use contend_core::ctrace::clock::ticks;
use contend_core::ctrace::format::{Event, event, sum};
use contend_core::ctrace::ring::{current, local};
use contend_core::ctrace::{flows, session, times};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};

use super::callable::{begin, end};

/// More arguments of one event are left out.
const MOST_ARGS: usize = 64;
/// A longer text is cut.
const MOST_TEXT_BYTES: usize = 1024;

static NAMES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

/// Id of a name; remembered by Python's own hash of the text.
/// To be asked for before the time of an event is read: where it is not known yet, others may have the interpreter's lock
/// meanwhile.
pub fn id(name: &Bound<'_, PyString>) -> PyResult<u32> {
    let py = name.py();
    let known = NAMES.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    if let Some(id) = known.get_item(name)? {
        return id.extract();
    }
    let id = session::name(cut(&name.to_cow()?));
    if known.len() < contend_core::ctrace::defs::MOST_NAMES {
        known.set_item(name, id)?;
    }
    Ok(id)
}

fn cut(text: &str) -> &str {
    match text.len() <= MOST_TEXT_BYTES {
        true => text,
        false => {
            let end = (0..=MOST_TEXT_BYTES)
                .rev()
                .find(|&at| text.is_char_boundary(at));
            &text[..end.unwrap_or(0)]
        }
    }
}

/// Events that say the arguments of the one before.
fn arguments(args: &Bound<'_, PyDict>, events: &mut Vec<Event>) -> PyResult<()> {
    for (name, value) in args.iter().take(MOST_ARGS) {
        let id = id(name.cast::<PyString>()?)?;
        events.extend(argument(id, &value)?);
    }
    Ok(())
}

fn argument(id: u32, value: &Bound<'_, PyAny>) -> PyResult<Option<Event>> {
    if value.is_instance_of::<PyFloat>() {
        return Ok(Some(Event::new(
            value.extract::<f64>()?.to_bits(),
            event::FLOAT,
            id,
            0,
        )));
    }
    if value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() {
        if let Ok(number) = value.extract::<i64>() {
            return Ok(Some(Event::new(number as u64, event::INT, id, 0)));
        }
    }
    let text = value.str()?;
    Ok(session::value(cut(&text.to_string_lossy()))
        .map(|text| Event::new(ticks(), event::ARG, id, text)))
}

/// A value's `__str__` is Python and may have recorded something: its event comes after that.
fn stamp(events: &mut [Event]) {
    let now = ticks();
    for event in events {
        if event.is_timed() {
            event.ticks = now;
        }
    }
}

/// An event with its arguments; whether it was recorded.
fn emit(session: u32, first: &[Event], args: Option<&Bound<'_, PyDict>>) -> PyResult<bool> {
    let Some(args) = args else {
        return Ok(match first {
            [one] => local().open(session, *one),
            more => local().group(session, more),
        });
    };
    let mut events = first.to_vec();
    arguments(args, &mut events)?;
    stamp(&mut events);
    Ok(local().group(session, &events))
}

/// See `_native.pyi`.
#[pyclass(frozen, module = "contend._native")]
pub struct TraceSpan {
    name: u32,
    args: Option<Py<PyDict>>,
    /// Where its BEGIN was recorded, 0 nowhere.
    session: AtomicU32,
}

#[pymethods]
impl TraceSpan {
    #[new]
    #[pyo3(signature = (name, /, **args))]
    fn new(name: &Bound<'_, PyString>, args: Option<Bound<'_, PyDict>>) -> PyResult<Self> {
        Ok(Self {
            name: id(name)?,
            args: args.map(Bound::unbind),
            session: AtomicU32::new(0),
        })
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        let session = current();
        let mut recorded = false;
        if session != 0 {
            recorded = match &this.args {
                None => begin(local(), session, this.name),
                Some(args) => {
                    let began = Event::new(ticks(), event::BEGIN, this.name, 0);
                    let (group, len) = times::beside(began);
                    emit(session, &group[..len], Some(args.bind(this.py())))?
                }
            };
        }
        this.session
            .store(if recorded { session } else { 0 }, Ordering::Relaxed);
        Ok(this)
    }

    #[pyo3(signature = (kind, _value, _traceback, /))]
    fn __exit__(
        &self,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) {
        let session = self.session.swap(0, Ordering::Relaxed);
        if session != 0 && current() == session {
            end(local(), session, self.name, !kind.is_none());
        }
    }

    /// Ends it, with what is known only now; leaving its block does nothing then.
    #[pyo3(signature = (**args))]
    fn end(&self, args: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let session = self.session.swap(0, Ordering::Relaxed);
        if session == 0 || current() != session {
            return Ok(());
        }
        let Some(args) = args else {
            end(local(), session, self.name, false);
            return Ok(());
        };
        let (group, len) = times::beside(Event::new(ticks(), event::END, self.name, 0));
        let mut events = group[..len].to_vec();
        // Whatever an argument does to be told, the span has ended.
        let told = arguments(args, &mut events);
        stamp(&mut events);
        local().close_group(session, &events);
        told
    }
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (name, /, **args))]
pub fn trace_instant(name: &Bound<'_, PyString>, args: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    let session = current();
    if session != 0 {
        let name = id(name)?;
        emit(
            session,
            &[Event::new(ticks(), event::INSTANT, name, 0)],
            args,
        )?;
    }
    Ok(())
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (name, value, /))]
pub fn trace_counter(name: &Bound<'_, PyString>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let session = current();
    if session == 0 {
        return Ok(());
    }
    let number = match value.extract::<i64>() {
        Ok(number) if !value.is_instance_of::<PyFloat>() => {
            Event::new(number as u64, event::INT, 0, 0)
        }
        _ => Event::new(value.extract::<f64>()?.to_bits(), event::FLOAT, 0, 0),
    };
    let name = id(name)?;
    emit(
        session,
        &[Event::new(ticks(), event::COUNTER, name, 0), number],
        None,
    )?;
    Ok(())
}

/// The number of a flow: as given, or the same for the same text in every process.
fn flow_number(flow: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Ok(number) = flow.extract() {
        return Ok(number);
    }
    if let Ok(text) = flow.cast::<PyString>() {
        return Ok(sum(text.to_cow()?.as_bytes()));
    }
    let low = flow.call_method1("__and__", (u64::MAX,));
    low.and_then(|low| low.extract()).map_err(|_| {
        let shown = flow
            .repr()
            .map_or_else(|_| "it".to_owned(), |text| text.to_string());
        PyTypeError::new_err(format!(
            "a flow is known by an int or a str, not by {shown}"
        ))
    })
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (name, flow, received, /))]
pub fn trace_flow(
    name: &Bound<'_, PyString>,
    flow: &Bound<'_, PyAny>,
    received: bool,
) -> PyResult<u64> {
    let number = match flow.is_none() && !received {
        true => flows::number(),
        false => flow_number(flow)?,
    };
    let session = current();
    if session != 0 {
        record_flow(session, id(name)?, number, received);
    }
    Ok(number)
}

/// One end of a flow, on the track that runs.
pub fn record_flow(session: u32, name: u32, number: u64, received: bool) {
    let kind = if received {
        event::FLOW_IN
    } else {
        event::FLOW_OUT
    };
    let events = [
        Event::new(ticks(), kind, name, number as u32),
        Event::new(number, event::INT, 0, 0),
    ];
    local().group(session, &events);
}

/// What makes a greenlet or a task has done so; the number of the flow from there to where it first runs.
pub fn record_spawn(session: u32) -> u64 {
    let number = flows::number();
    record_flow(session, spawn_name(), number, false);
    number
}

/// The greenlet or task runs for the first time.
pub fn record_first_run(session: u32, number: u64) {
    record_flow(session, spawn_name(), number, true);
}

fn spawn_name() -> u32 {
    static NAME: OnceLock<u32> = OnceLock::new();
    *NAME.get_or_init(|| session::name("spawn"))
}

static JOBS: AtomicU64 = AtomicU64::new(0);

/// The number of the next job of this process.
pub fn new_job() -> u32 {
    JOBS.fetch_add(1, Ordering::Relaxed) as u32 + 1
}

/// See `_native.pyi`.
#[pyclass(frozen, module = "contend._native")]
pub struct TraceJob {
    name: u32,
    args: Option<Py<PyDict>>,
    /// In this process.
    #[pyo3(get)]
    number: u32,
    session: AtomicU32,
}

#[pymethods]
impl TraceJob {
    #[new]
    #[pyo3(signature = (name, /, **args))]
    fn new(name: &Bound<'_, PyString>, args: Option<Bound<'_, PyDict>>) -> PyResult<Self> {
        let number = new_job();
        Ok(Self {
            name: id(name)?,
            args: args.map(Bound::unbind),
            number,
            session: AtomicU32::new(0),
        })
    }

    /// It begins, here and now.
    fn begin(this: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        let session = current();
        if session != 0 {
            let began = Event::new(ticks(), event::JOB_BEGIN, this.name, this.number);
            let (group, len) = times::with(began);
            let args = this.args.as_ref().map(|args| args.bind(this.py()));
            if emit(session, &group[..len], args)? {
                this.session.store(session, Ordering::Relaxed);
            }
        }
        Ok(this)
    }

    /// It ends; in any thread. A second end says nothing.
    fn end(&self) {
        let session = self.session.swap(0, Ordering::Relaxed);
        if session != 0 && current() == session {
            // This thread may have nothing on record yet: then its end may be lost as any new event.
            let ended = Event::new(ticks(), event::JOB_END, self.name, self.number);
            let (group, len) = times::with(ended);
            local().settle_group(session, &group[..len]);
        }
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyResult<PyRef<'_, Self>> {
        Self::begin(this)
    }

    #[pyo3(signature = (_kind, _value, _traceback, /))]
    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) {
        self.end();
    }
}

/// Into the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TraceSpan>()?;
    module.add_class::<TraceJob>()?;
    module.add_function(wrap_pyfunction!(trace_instant, module)?)?;
    module.add_function(wrap_pyfunction!(trace_counter, module)?)?;
    module.add_function(wrap_pyfunction!(trace_flow, module)?)
}
