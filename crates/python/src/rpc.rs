//! `RpcClient` and `RpcServer`: the native driver for RPC over AMQP.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contend_amqp::client::{Client, Load, Options};
use contend_amqp::server::{self, Server, Shared};
use contend_amqp::session::Session;
use contend_amqp::terms::{self, Queues, Semantics, Target};
use contend_amqp::url::Url;
use contend_core::pace::schedule::schedule;
use contend_core::pace::{Arrivals, Run, Summary};
use contend_core::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::raise;
use crate::pace::percentiles;

fn semantics(name: &str, envelope: bool) -> Result<Semantics> {
    match name {
        "oslo" => Ok(Semantics::Oslo { envelope }),
        "bare" => Ok(Semantics::Bare),
        _ => Err(Error::invalid(
            format!("'{name}' is not one of: oslo, bare"),
            "oslo promises no less than oslo.messaging",
        )),
    }
}

fn queues(quorum: bool) -> Queues {
    if quorum {
        Queues::Quorum
    } else {
        Queues::Classic
    }
}

/// A poisoned lock only means that another thread's call has panicked: the connection is as it was.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn closed() -> Error {
    Error::invalid("this end was closed", "open a new one")
}

/// Asks Python whether a signal has to be handled; keeps what its handler raised.
fn signalled(raised: &mut Option<PyErr>) -> bool {
    if raised.is_none() {
        *raised = Python::attach(|py| py.check_signals()).err();
    }
    raised.is_some()
}

/// See `_native.pyi`.
#[pyclass(module = "contend._native")]
pub struct RpcClient {
    client: Mutex<Option<Client>>,
    reply_queue: Option<String>,
    version: String,
}

#[pymethods]
impl RpcClient {
    #[new]
    #[pyo3(signature = (url, *, exchange, topic, payloads, semantics="oslo", envelope=true, quorum=false, cast=false,
        timeout_ns=60_000_000_000, host=0, reconnect=false))]
    #[allow(clippy::too_many_arguments)] // keyword arguments of a Python function
    fn new(
        py: Python<'_>,
        url: &str,
        exchange: &str,
        topic: &str,
        payloads: Vec<Vec<u8>>,
        semantics: &str,
        envelope: bool,
        quorum: bool,
        cast: bool,
        timeout_ns: u64,
        host: usize,
        reconnect: bool,
    ) -> PyResult<Self> {
        let opened = py.detach(|| {
            let options = Options {
                target: Target::new(exchange, topic, "any")?,
                semantics: self::semantics(semantics, envelope)?,
                queues: queues(quorum),
                cast,
                timeout_ns,
                payloads,
                reconnect,
            };
            Client::open(&Url::parse(url)?, options, host)
        });
        let client = opened.map_err(|error| raise(py, &error))?;
        let reply_queue = client.reply_queue().map(str::to_owned);
        let version = client.session().version().to_owned();
        Ok(Self {
            client: Mutex::new(Some(client)),
            reply_queue,
            version,
        })
    }

    #[getter]
    fn reply_queue(&self) -> Option<&str> {
        self.reply_queue.as_deref()
    }

    #[getter]
    fn broker_version(&self) -> &str {
        &self.version
    }

    #[pyo3(signature = (*, callers, duration_ns, rate=None, poisson=false, seed=0, drain_ns=5_000_000_000,
        keep_requests=false))]
    #[allow(clippy::too_many_arguments)] // keyword arguments of a Python function
    fn run<'py>(
        &self,
        py: Python<'py>,
        callers: usize,
        duration_ns: u64,
        rate: Option<f64>,
        poisson: bool,
        seed: u64,
        drain_ns: u64,
        keep_requests: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut raised = None;
        let ran = py.detach(|| {
            let load = match rate {
                None => Load::Closed,
                Some(rate) => {
                    let arrivals = if poisson {
                        Arrivals::Poisson
                    } else {
                        Arrivals::Constant
                    };
                    Load::Open(schedule(arrivals, rate, duration_ns, seed)?)
                }
            };
            let mut held = lock(&self.client);
            let client = held.as_mut().ok_or_else(closed)?;
            let before = client.bytes();
            let run = client.run(&load, callers, duration_ns, drain_ns, || {
                signalled(&mut raised)
            })?;
            let after = client.bytes();
            let summary = Summary::of(&run);
            Ok((run, summary, after.0 - before.0, after.1 - before.1))
        });
        if let Some(error) = raised {
            return Err(error);
        }
        let (run, summary, sent, received) = ran.map_err(|error| raise(py, &error))?;
        let told = told(py, &run, &summary, rate)?;
        told.set_item("bytes_sent", sent)?;
        told.set_item("bytes_received", received)?;
        if keep_requests {
            told.set_item("requests", crate::pace::requests(py, &run)?)?;
        }
        Ok(told)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| lock(&self.client).take().map_or(Ok(()), Client::close))
            .map_err(|error| raise(py, &error))
    }
}

fn told<'py>(
    py: Python<'py>,
    run: &Run,
    summary: &Summary,
    rate: Option<f64>,
) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    told.set_item("start_ns", run.start_ns)?;
    told.set_item("elapsed_ns", summary.elapsed_ns)?;
    told.set_item("rate_asked", rate)?;
    for (name, count) in [
        ("due", summary.due),
        ("sent", summary.sent),
        ("ok", summary.ok),
        ("refused", summary.refused),
        ("broken", summary.broken),
        ("timed_out", summary.timed_out),
        ("unfinished", summary.unfinished),
        ("queued", summary.queued),
    ] {
        told.set_item(name, count)?;
    }
    told.set_item("reconnects", run.reconnects)?;
    told.set_item("last_error", run.last_error.as_str())?;
    told.set_item("latency_s", percentiles(py, summary.latency)?)?;
    told.set_item("service_s", percentiles(py, summary.service)?)?;
    told.set_item("lateness_s", percentiles(py, summary.lateness)?)?;
    told.set_item("cpu_ns", run.cpu_ns)?;
    Ok(told)
}

/// See `_native.pyi`.
#[pyclass(module = "contend._native")]
pub struct RpcServer {
    server: Mutex<Option<Server>>,
    shared: Arc<Shared>,
}

#[pymethods]
impl RpcServer {
    #[new]
    #[pyo3(signature = (url, *, exchange, topic, server, answer, semantics="oslo", envelope=true, quorum=false, host=0,
        reconnect=false, keep_calls=false))]
    #[allow(clippy::too_many_arguments)] // keyword arguments of a Python function
    fn new(
        py: Python<'_>,
        url: &str,
        exchange: &str,
        topic: &str,
        server: &str,
        answer: Vec<u8>,
        semantics: &str,
        envelope: bool,
        quorum: bool,
        host: usize,
        reconnect: bool,
        keep_calls: bool,
    ) -> PyResult<Self> {
        let opened = py.detach(|| {
            let options = server::Options {
                target: Target::new(exchange, topic, server)?,
                semantics: self::semantics(semantics, envelope)?,
                queues: queues(quorum),
                answer,
                reconnect,
                keep_calls,
            };
            Server::open(&Url::parse(url)?, options, host)
        });
        let server = opened.map_err(|error| raise(py, &error))?;
        Ok(Self {
            server: Mutex::new(Some(server)),
            shared: Arc::new(Shared::default()),
        })
    }

    fn serve(&self, py: Python<'_>) -> PyResult<()> {
        let mut raised = None;
        let served = py.detach(|| {
            let mut held = lock(&self.server);
            let server = held.as_mut().ok_or_else(closed)?;
            server.serve(&self.shared, || signalled(&mut raised))
        });
        match raised {
            Some(error) => Err(error),
            None => served.map_err(|error| raise(py, &error)),
        }
    }

    fn work(&self, ns: u64) {
        self.shared.work_ns.store(ns, Ordering::Relaxed);
    }

    fn calls<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let calls = lock(&self.shared.calls);
        let bytes: Vec<u8> = calls.iter().flat_map(|call| call.to_ne_bytes()).collect();
        PyBytes::new(py, &bytes)
    }

    fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let told = PyDict::new(py);
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        told.set_item("handled", of(&self.shared.handled))?;
        told.set_item("redelivered", of(&self.shared.redelivered))?;
        told.set_item("dropped", of(&self.shared.dropped))?;
        told.set_item("malformed", of(&self.shared.malformed))?;
        told.set_item("again", of(&self.shared.again))?;
        told.set_item("undelivered", of(&self.shared.undelivered))?;
        told.set_item("reconnects", of(&self.shared.reconnects))?;
        told.set_item("last_ns", of(&self.shared.last_ns))?;
        told.set_item("bytes_sent", of(&self.shared.bytes_sent))?;
        told.set_item("bytes_received", of(&self.shared.bytes_received))?;
        Ok(told)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.stop();
        py.detach(|| lock(&self.server).take().map_or(Ok(()), Server::close))
            .map_err(|error| raise(py, &error))
    }
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (url, *, queues=Vec::new(), exchanges=Vec::new()))]
pub fn rpc_remove(
    py: Python<'_>,
    url: &str,
    queues: Vec<String>,
    exchanges: Vec<String>,
) -> PyResult<()> {
    let removed = py.detach(|| {
        let mut session = Session::open(&Url::parse(url)?, "contend clean-up", 0)?;
        terms::remove(&mut session, &queues, &exchanges)?;
        session.close();
        Ok(())
    });
    removed.map_err(|error: Error| raise(py, &error))
}
