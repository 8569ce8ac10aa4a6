//! Rates and exact percentiles of a run.
use super::request::{Outcome, Run};

/// The percentiles reported, with their names.
pub const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// The smallest value that at least a share `q` of the sorted values does not exceed (nearest rank); None if empty.
pub fn quantile(sorted: &[u64], q: f64) -> Option<u64> {
    // Guard against 0.999·1000 = 999.0000000000001 asking for one rank too many.
    let rank = (q * sorted.len() as f64 - 1e-9).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).checked_sub(1)?).copied()
}

/// p50, p90, p99, p99.9 and the maximum, exact, in nanoseconds.
pub type Percentiles = [Option<u64>; QUANTILES.len()];

fn percentiles(mut values: Vec<u64>) -> Percentiles {
    values.sort_unstable();
    QUANTILES.map(|(_, q)| quantile(&values, q))
}

/// What a run says.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Requests that were due.
    pub due: usize,
    /// Requests that were sent.
    pub sent: usize,
    /// Answered without error.
    pub ok: usize,
    /// Answered with an error of the application.
    pub refused: usize,
    /// Lost to a broken connection or an answer that made no sense.
    pub broken: usize,
    /// No answer within the limit.
    pub timed_out: usize,
    /// Not answered when the run ended, sent or still queued.
    pub unfinished: usize,
    /// From the start to the last answer, or the planned length if that is longer.
    pub elapsed_ns: u64,
    /// Intended time to answer; requests without one count with the time they waited, a lower bound. Requests that
    /// failed otherwise are left out: a refusal can be quick.
    pub latency: Percentiles,
    /// Mean of the same, in nanoseconds.
    pub latency_mean_ns: Option<f64>,
    /// Send to answer, of those answered without error: what a closed loop would show.
    pub service: Percentiles,
    /// Due to sent, of requests for which a connection was free: the generator's own lateness.
    pub lateness: Percentiles,
    /// Requests that waited for a free connection.
    pub queued: usize,
}

impl Summary {
    /// Sort and count.
    pub fn of(run: &Run) -> Self {
        let count = |wanted| run.requests.iter().filter(|r| r.outcome == wanted).count();
        let counted = |outcome| matches!(outcome, Outcome::Ok | Outcome::TimedOut | Outcome::Unfinished);
        let waits: Vec<u64> =
            run.requests.iter().filter(|r| counted(r.outcome)).map(|r| r.done_ns - r.intended_ns).collect();
        let answered = run.requests.iter().filter(|r| r.outcome == Outcome::Ok);
        let last = run.requests.iter().map(|r| r.done_ns).max().unwrap_or(0);
        let mean = waits.iter().map(|w| *w as f64).sum::<f64>() / waits.len() as f64;
        Self {
            due: run.requests.len(),
            sent: run.requests.iter().filter(|r| r.sent_ns.is_some()).count(),
            ok: count(Outcome::Ok),
            refused: count(Outcome::Refused),
            broken: count(Outcome::Broken),
            timed_out: count(Outcome::TimedOut),
            unfinished: count(Outcome::Unfinished),
            elapsed_ns: last.max(run.duration_ns),
            latency_mean_ns: (!waits.is_empty()).then_some(mean),
            latency: percentiles(waits),
            service: percentiles(answered.filter_map(|r| Some(r.done_ns - r.sent_ns?)).collect()),
            lateness: percentiles(
                run.requests
                    .iter()
                    .filter(|r| !r.queued)
                    .filter_map(|r| Some(r.sent_ns? - r.intended_ns))
                    .collect(),
            ),
            queued: run.requests.iter().filter(|r| r.queued).count(),
        }
    }

    /// Requests answered without error, a second.
    pub fn rate_achieved(&self) -> f64 {
        self.ok as f64 * 1e9 / self.elapsed_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank() {
        let values: Vec<u64> = (1..=1000).collect();
        let of = |q| quantile(&values, q).unwrap();
        assert_eq!((of(0.5), of(0.9), of(0.99), of(0.999), of(1.0)), (500, 900, 990, 999, 1000));
        assert_eq!(quantile(&[7], 0.5), Some(7));
        assert_eq!(quantile(&[1, 2, 3], 0.5), Some(2));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
