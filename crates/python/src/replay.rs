//! A traced storm that can be run again, as a simulation: `Storm`.
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use contend_core::Error;
use contend_core::clock::monotonic_ns;
use contend_core::replay::coalesce::Source;
use contend_core::replay::doubts::Kind as DoubtKind;
use contend_core::replay::edits::{Edit, apply, reorder};
use contend_core::replay::extract::{self, extract};
use contend_core::replay::model::{Discipline, Model, Op, Root, UNKNOWN, made};
use contend_core::replay::reading::{Guard, Reading};
use contend_core::replay::simulate::{Outcome, simulate};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::columns::column;
use crate::ctrace::{interruptible, open_masked};
use crate::errors::raise;

/// See `_native.pyi`.
#[pyclass(frozen, module = "contend._native")]
pub struct Storm {
    storm: extract::Storm,
}

/// Two readings of when a host was booted differ by less, as its clock is set.
const SAME_BOOT_NS: u64 = 10_000_000_000;

/// Kind, name and number of an edit, as Python has it.
type Asked = (String, String, f64);

#[pymethods]
impl Storm {
    #[new]
    #[pyo3(signature = (paths, jobs, *, interpreter = "recorded", without = Vec::new(), guards = Vec::new()))]
    fn new(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        jobs: Vec<String>,
        interpreter: &str,
        without: Vec<String>,
        guards: Vec<(String, String, Option<u32>)>,
    ) -> PyResult<Self> {
        let without = without
            .iter()
            .map(|name| name.parse())
            .collect::<Result<_, Error>>();
        let reading = Reading {
            interpreter: interpreter.parse().map_err(|error| raise(py, &error))?,
            without: without.map_err(|error| raise(py, &error))?,
            guards: guards
                .into_iter()
                .map(|(name, site, most)| Guard { name, site, most })
                .collect(),
        };
        let storm = interruptible(py, |go_on| {
            let trace = open_masked(&paths, 0)?;
            let mut storm = extract(&trace, &jobs, &reading, go_on)?;
            storm.model.processors = processors(trace.boot_ns).unwrap_or(0);
            Ok(storm)
        })?;
        Ok(Self { storm })
    }

    /// Name, site and how many each lets in, of conditions that let in so many at a time; nothing where that is many who share,
    /// or one alone.
    fn guards(&self) -> Vec<(String, String, Option<u32>)> {
        let of = |guard: &Guard| (guard.name.clone(), guard.site.clone(), guard.most);
        self.storm.guards.iter().map(of).collect()
    }

    /// Begin and end of each job as recorded, and what the recording says of it.
    fn recorded<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let storm = &self.storm;
        let jobs: Vec<_> = storm
            .model
            .roots
            .iter()
            .filter(|root| root.job)
            .map(Root::recorded_ns)
            .collect();
        let dict = spans(py, &jobs)?;
        let roots = &storm.model.roots;
        let made = made(roots);
        let by_themselves = |&(root, made): &(&Root, bool)| {
            root.job && root.after.is_none() && root.gate.is_none() && !made
        };
        let come = roots
            .iter()
            .zip(made)
            .filter(by_themselves)
            .map(|(root, _)| root.begin_ns);
        dict.set_item("come_ns", column(py, come.collect::<Vec<_>>().into_iter())?)?;
        dict.set_item("lock_ns", &storm.lock_ns)?;
        dict.set_item("pool_ns", &storm.pool_ns)?;
        dict.set_item("jobs_ns", storm.jobs_ns)?;
        dict.set_item("latency_ns", storm.latency_ns)?;
        dict.set_item("unexplained_ns", storm.unexplained_ns)?;
        dict.set_item("unfinished", storm.unfinished)?;
        dict.set_item("lost", storm.lost)?;
        let doubts = PyList::empty(py);
        for doubt in &storm.doubts {
            let row = PyDict::new(py);
            let kind = match doubt.kind {
                DoubtKind::GaveUp => "gave up",
                DoubtKind::Polls => "polls",
                DoubtKind::Chained => "chained",
                DoubtKind::Batched => "batched",
                DoubtKind::Condition => "condition",
            };
            row.set_item("kind", kind)?;
            row.set_item("name", storm.model.text(doubt.name))?;
            row.set_item("jobs", doubt.jobs)?;
            row.set_item("count", doubt.count)?;
            row.set_item("ns", doubt.ns)?;
            doubts.append(row)?;
        }
        dict.set_item("doubts", doubts)?;
        let unseen = &storm.unseen;
        dict.set_item("calls_known", storm.calls_known)?;
        dict.set_item("unhosted", storm.unhosted)?;
        dict.set_item("unseen_ns", (unseen.threads_ns, unseen.suspended_ns))?;
        let delays = PyDict::new(py);
        let all = &storm.delays.all;
        delays.set_item(
            "kind",
            column(py, all.iter().map(|one| u64::from(one.kind)))?,
        )?;
        delays.set_item(
            "root",
            column(py, all.iter().map(|one| u64::from(one.root)))?,
        )?;
        delays.set_item("begin_ns", column(py, all.iter().map(|one| one.begin_ns))?)?;
        delays.set_item("ns", column(py, all.iter().map(|one| one.ns))?)?;
        delays.set_item("kinds", &storm.delays.kinds)?;
        dict.set_item("delays", delays)?;
        dict.set_item("processors", storm.model.processors)?;
        let regime = &storm.regime;
        let of = PyDict::new(py);
        of.set_item("makespan_ns", regime.makespan_ns)?;
        of.set_item("seen_ns", regime.seen_ns)?;
        of.set_item("run_delay_ns", regime.run_delay_ns)?;
        of.set_item("gil_ns", regime.gil_ns)?;
        of.set_item("pieces_ns", regime.pieces_ns)?;
        of.set_item("replayed", !storm.model.interpreters.is_empty())?;
        let cpu = regime.cpu.as_ref().map(|processes| {
            let of = |process: &contend_core::replay::regime::Process| {
                (
                    storm.model.text(process.name).to_owned(),
                    process.cpu_ns,
                    process.loops_ns,
                )
            };
            processes.iter().map(of).collect::<Vec<_>>()
        });
        of.set_item("cpu", cpu)?;
        dict.set_item("regime", of)?;
        Ok(dict)
    }

    /// What edits can name.
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let model = &self.storm.model;
        let (of_locks, of_pools) = model.users();
        let locks = PyList::empty(py);
        for (lock, jobs) in model.locks.iter().zip(of_locks) {
            let row = PyDict::new(py);
            row.set_item("name", model.text(lock.name))?;
            row.set_item("site", model.text(lock.site))?;
            row.set_item(
                "capacity",
                (lock.capacity != u32::MAX).then_some(lock.capacity),
            )?;
            row.set_item("semaphore", lock.semaphore)?;
            row.set_item("seen", lock.seen)?;
            row.set_item("jobs", jobs)?;
            locks.append(row)?;
        }
        let pools = PyList::empty(py);
        for (pool, jobs) in model.pools.iter().zip(of_pools) {
            let row = PyDict::new(py);
            row.set_item("name", model.text(pool.name))?;
            row.set_item("process", model.text(pool.process))?;
            row.set_item("workers", (!pool.unlimited).then(|| pool.workers()))?;
            row.set_item("queues", pool.queues.len())?;
            let discipline = match pool.discipline {
                Discipline::Fifo => "fifo",
                Discipline::Lifo => "lifo",
                Discipline::Priority => "priority",
                Discipline::Ranked => "ranked",
            };
            row.set_item("discipline", discipline)?;
            row.set_item("forked", pool.forked)?;
            row.set_item("jobs", jobs)?;
            pools.append(row)?;
        }
        let spans = PyList::empty(py);
        for (name, row) in spans_of(model) {
            spans.append((
                model.text(name),
                row.count,
                row.calls,
                row.total_ns,
                row.repeated,
            ))?;
        }
        let dict = PyDict::new(py);
        dict.set_item("locks", locks)?;
        dict.set_item("pools", pools)?;
        dict.set_item("spans", spans)?;
        let servers = model
            .servers
            .iter()
            .map(|server| model.text(server.name).to_owned());
        dict.set_item("servers", servers.collect::<Vec<_>>())?;
        let branches = model
            .branches
            .iter()
            .map(|of| model.text(of.name).to_owned());
        dict.set_item("branches", branches.collect::<Vec<_>>())?;
        let mut steps = model
            .roots
            .iter()
            .filter(|root| root.job)
            .flat_map(Root::programs)
            .flatten();
        let looks_again =
            steps.any(|op| matches!(op, Op::Try(_) | Op::Poll { .. } | Op::GaveUp { .. }));
        dict.set_item("looks_again", looks_again)?;
        let calls = self.storm.system_calls.iter();
        let calls: Vec<_> = calls.map(|&name| model.text(name).to_owned()).collect();
        dict.set_item("system_calls", calls)?;
        Ok(dict)
    }

    /// The storm with these edits. Seed 0: the jobs in their recorded order; else in one that is drawn.
    fn run<'py>(
        &self,
        py: Python<'py>,
        edits: Vec<Asked>,
        seed: u64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let edits: Vec<Edit> = edits
            .into_iter()
            .map(edit)
            .collect::<Result<_, _>>()
            .map_err(|error| raise(py, &error))?;
        let (model, costs, out) = py.detach(|| {
            let (mut model, costs) = apply(&self.storm.model, &edits, seed);
            if seed != 0 {
                reorder(&mut model, seed);
            }
            let out = simulate(&model);
            (model, costs, out)
        });
        let jobs: Vec<_> = model
            .jobs()
            .map(|at| out.roots[at])
            .filter(|job| job.1 != UNKNOWN)
            .collect();
        let dict = spans(py, &jobs)?;
        dict.set_item("stuck", model.jobs().count() - jobs.len())?;
        let steps = model.roots.iter().flat_map(Root::programs).flatten();
        dict.set_item("work_ns", steps.map(Op::time_ns).sum::<u64>())?;
        let Outcome {
            lock_ns,
            pool_ns,
            overdue,
            beyond,
            otherwise,
            held_ns,
            busy_ns,
            wasted_ns,
            guessed,
            crowded,
            ran_ns,
            ready_ns,
            computed_ns,
            interpreter_ns,
            outside,
            ..
        } = out;
        let outside = outside
            .iter()
            .map(|(&name, of)| (model.text(name).to_owned(), of.most, of.ns));
        dict.set_item("outside", outside.collect::<Vec<_>>())?;
        dict.set_item("beyond", beyond)?;
        dict.set_item("overdue", overdue)?;
        dict.set_item("otherwise", otherwise)?;
        dict.set_item("guessed", guessed)?;
        dict.set_item("crowded", crowded)?;
        let grown = model
            .pools
            .iter()
            .zip(&pool_ns)
            .filter(|(pool, _)| pool.grows);
        let grown = grown.map(|(pool, &ns)| (model.text(pool.name), pool.workers(), ns));
        let of_workers = model
            .pools
            .iter()
            .flat_map(|pool| pool.processes.iter().copied());
        dict.set_item("of_workers", of_workers.collect::<Vec<_>>())?;
        dict.set_item("grown", grown.collect::<Vec<_>>())?;
        for (key, of) in [
            ("lock_ns", lock_ns),
            ("pool_ns", pool_ns),
            ("held_ns", held_ns),
            ("busy_ns", busy_ns),
            ("wasted_ns", wasted_ns),
            ("ran_ns", ran_ns),
            ("ready_ns", ready_ns),
            ("computed_ns", computed_ns),
            ("interpreter_ns", interpreter_ns),
        ] {
            dict.set_item(key, of)?;
        }
        let rows = PyList::empty(py);
        for cost in costs {
            let row = PyDict::new(py);
            row.set_item("call", cost.call)?;
            let source = match cost.source {
                Source::Calls => "calls",
                Source::Pool => "pool",
                Source::Server => "server",
                Source::Shortest => "shortest",
            };
            row.set_item("source", source)?;
            row.set_item("fixed_ns", cost.fixed_ns as u64)?;
            row.set_item("item_ns", cost.item_ns as u64)?;
            row.set_item("calls", cost.calls)?;
            row.set_item("before", cost.before)?;
            row.set_item("after", cost.after)?;
            rows.append(row)?;
        }
        dict.set_item("costs", rows)?;
        Ok(dict)
    }
}

/// Processors of the host that a trace was made on: this one, where it has not been booted since.
fn processors(boot_ns: u64) -> Option<u32> {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()?
        .as_nanos() as u64;
    let here = since.checked_sub(monotonic_ns())?;
    // SAFETY: it only answers.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    (boot_ns > 0 && here.abs_diff(boot_ns) < SAME_BOOT_NS).then_some(u32::try_from(count).ok()?)
}

fn spans<'py>(py: Python<'py>, jobs: &[(u64, u64)]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("begin_ns", column(py, jobs.iter().map(|job| job.0))?)?;
    dict.set_item("end_ns", column(py, jobs.iter().map(|job| job.1))?)?;
    Ok(dict)
}

fn edit((kind, name, number): Asked) -> Result<Edit, Error> {
    Ok(match kind.as_str() {
        "hold" => Edit::Hold(name, number),
        "remove" => Edit::Remove(name),
        "unlock" => Edit::Unlock(name),
        "coalesce" => Edit::Coalesce(name, number as u32),
        "coalesce_other" => Edit::CoalesceOther(name, number as u32),
        "global_queue" => Edit::GlobalQueue(name),
        "workers" => Edit::Workers(name, number as u32),
        "size" => Edit::Size(name, number as u32),
        "jobs" => Edit::Jobs(number as u32),
        "ways" => Edit::Ways(number),
        "uneven" => Edit::Uneven(number),
        _ => {
            return Err(Error::invalid(format!("no edit is called '{kind}'"), ""));
        }
    })
}

/// Of the spans of one name.
#[derive(Default)]
struct Row {
    count: u64,
    /// In which something is given to others.
    calls: u64,
    /// Delays in them, and in what is sent from them.
    total_ns: u64,
    /// That follow one of the same name in the same span.
    repeated: u64,
}

fn spans_of(model: &Model) -> Vec<(u32, Row)> {
    let mut found = std::collections::BTreeMap::<u32, Row>::new();
    for program in model.roots.iter().flat_map(|root| root.programs()) {
        // Name, whether it sent, and the child that ended last.
        let mut open: Vec<(u32, bool, Option<u32>)> = Vec::new();
        let mut top = None;
        for op in program {
            match *op {
                Op::Enter { name, .. } => open.push((name, false, None)),
                Op::Leave => {
                    let Some((name, sent, _)) = open.pop() else {
                        continue;
                    };
                    let row = found.entry(name).or_default();
                    row.count += 1;
                    if let Some(around) = open.last_mut() {
                        around.1 |= sent;
                    }
                    row.calls += u64::from(sent);
                    let before = open.last_mut().map_or(&mut top, |around| &mut around.2);
                    row.repeated += u64::from(before.replace(name) == Some(name));
                }
                Op::Send(_) => {
                    if let Some(last) = open.last_mut() {
                        last.1 = true;
                    }
                }
                _ => {
                    for (name, ..) in &open {
                        found.entry(*name).or_default().total_ns += op.time_ns();
                    }
                }
            }
        }
    }
    found.into_iter().collect()
}
