//! Whether the storm waits or computes: the replay has no CPUs.
use super::pieces::{Kind, Pieces};
use super::record::{Record, Used};
use super::running::Running;
use crate::ctrace::reader::Trace;

/// What is on record about it, of jobs and items.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Regime {
    /// From the first job's begin to the last one's end.
    pub makespan_ns: u64,
    /// CPU time by process, of all its threads that have it on record; none where there is none on record.
    pub cpu: Option<Vec<Process>>,
    /// Time of threads between readings of their CPU time, in which they did something: a job, an item, a span.
    pub seen_ns: u64,
    /// Of it: ready and without a CPU.
    pub run_delay_ns: u64,
    /// Waits of jobs and items for the interpreter's lock; none where they are not on record.
    pub gil_ns: Option<u64>,
    /// All jobs and items together, begin to end.
    pub pieces_ns: u64,
}

/// One process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// Place in the names.
    pub name: u32,
    /// While the storm lasted.
    pub cpu_ns: u64,
    /// Of it: of threads with a loop or hub, whose tasks or greenlets take turns in the replay, too.
    pub loops_ns: u64,
}

/// Of the storm.
pub fn regime(trace: &Trace, record: &Record<'_>, pieces: &Pieces, running: &Running) -> Regime {
    let mut seen = 0;
    let jobs = pieces.all.iter().filter(|piece| matches!(piece.kind, Kind::Job(_)));
    let (begin, end) = jobs.fold((u64::MAX, 0), |(a, b), job| (a.min(job.begin_ns), b.max(job.until_ns)));
    let mut found = Regime { makespan_ns: end.saturating_sub(begin), ..Regime::default() };
    let mut processes: Vec<Process> = trace
        .files
        .iter()
        .map(|file| Process { name: trace.tracks[file.process as usize].name, cpu_ns: 0, loops_ns: 0 })
        .collect();
    for (track, used) in record.used.iter().enumerate() {
        let within: Vec<&Used> = used.iter().filter(|u| (begin..=end).contains(&u.ns)).collect();
        if let ([first, .., last], file) = (within.as_slice(), trace.tracks[track].file) {
            let cpu_ns = last.cpu_ns.saturating_sub(first.cpu_ns);
            processes[file as usize].cpu_ns += cpu_ns;
            if running.is_loop(track as u32) {
                processes[file as usize].loops_ns += cpu_ns;
            }
            seen += last.ns - first.ns;
        }
        // A worker that has nothing to do waits for no processor, and is no reason to think that nobody does.
        let of = pieces.on(track as u32);
        for pair in within.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let piece = of[..of.partition_point(|piece| piece.begin_ns <= from.ns)].last();
            if from.works || piece.is_some_and(|piece| to.ns <= piece.end_ns) {
                found.seen_ns += to.ns - from.ns;
                found.run_delay_ns += to.run_delay_ns.saturating_sub(from.run_delay_ns);
            }
        }
    }
    found.cpu = (seen > 0).then_some(processes);
    found.pieces_ns = pieces.all.iter().map(|piece| piece.work_ns(record)).sum();
    let waits = record.gil.iter().map(|&(track, from, to)| {
        let of = pieces.on(track);
        let first = of.partition_point(|piece| piece.end_ns <= from);
        let inside = of[first..].iter().take_while(|piece| piece.begin_ns < to);
        inside.map(|piece| to.min(piece.end_ns).saturating_sub(from.max(piece.begin_ns))).sum::<u64>()
    });
    let gil_ns = waits.sum();
    found.gil_ns = record.gil_known.then_some(gil_ns);
    found
}
