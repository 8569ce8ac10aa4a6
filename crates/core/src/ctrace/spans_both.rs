//! Several who are told everything in one reading.
use super::format::Event;
use super::spans::{At, Ending, Job, Sink, Title, Value};
use crate::Result;

/// Is told, and keeps nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Sink for Nobody {
    fn begin(&mut self, _: At, _: u32, _: Title, _: Option<u32>, _: &[Event]) -> Result<()> {
        Ok(())
    }

    fn end(&mut self, _: At, _: u32, _: Title, _: Ending, _: &[Event]) -> Result<()> {
        Ok(())
    }
}

/// The one, then the other.
pub struct Both<'a, A, B>(pub &'a mut A, pub &'a mut B);

impl<A: Sink, B: Sink> Sink for Both<'_, A, B> {
    fn begin(
        &mut self,
        at: At,
        track: u32,
        what: Title,
        holder: Option<u32>,
        details: &[Event],
    ) -> Result<()> {
        self.0.begin(at, track, what, holder, details)?;
        self.1.begin(at, track, what, holder, details)
    }

    fn end(&mut self, at: At, track: u32, what: Title, how: Ending, details: &[Event]) -> Result<()> {
        self.0.end(at, track, what, how, details)?;
        self.1.end(at, track, what, how, details)
    }

    fn stint_begin(&mut self, at: At, thread: u32, track: u32) -> Result<()> {
        self.0.stint_begin(at, thread, track)?;
        self.1.stint_begin(at, thread, track)
    }

    fn stint_end(&mut self, at: At, thread: u32, track: u32) -> Result<()> {
        self.0.stint_end(at, thread, track)?;
        self.1.stint_end(at, thread, track)
    }

    fn instant(&mut self, at: At, track: u32, name: u32, details: &[Event]) -> Result<()> {
        self.0.instant(at, track, name, details)?;
        self.1.instant(at, track, name, details)
    }

    fn flow(&mut self, at: At, track: u32, name: u32, id: u64, received: bool) -> Result<()> {
        self.0.flow(at, track, name, id, received)?;
        self.1.flow(at, track, name, id, received)
    }

    fn counter(&mut self, at: At, name: u32, value: Value) -> Result<()> {
        self.0.counter(at, name, value)?;
        self.1.counter(at, name, value)
    }

    fn passed(&mut self, at: At, track: u32, lock: u32, holder: Option<u32>) -> Result<()> {
        self.0.passed(at, track, lock, holder)?;
        self.1.passed(at, track, lock, holder)
    }

    fn queue(&mut self, at: At, track: u32, lock: u32, length: u32, got: bool) -> Result<()> {
        self.0.queue(at, track, lock, length, got)?;
        self.1.queue(at, track, lock, length, got)
    }

    fn hold_begin(&mut self, at: At, lock: u32, lane: u32, holder: u32) -> Result<()> {
        self.0.hold_begin(at, lock, lane, holder)?;
        self.1.hold_begin(at, lock, lane, holder)
    }

    fn hold_end(&mut self, at: At, lock: u32, lane: u32, holder: u32, how: Ending) -> Result<()> {
        self.0.hold_end(at, lock, lane, holder, how)?;
        self.1.hold_end(at, lock, lane, holder, how)
    }

    fn job_begin(&mut self, at: At, track: u32, job: Job, details: &[Event]) -> Result<()> {
        self.0.job_begin(at, track, job, details)?;
        self.1.job_begin(at, track, job, details)
    }

    fn job_end(&mut self, at: At, track: u32, job: Job, how: Ending) -> Result<()> {
        self.0.job_end(at, track, job, how)?;
        self.1.job_end(at, track, job, how)
    }
}
