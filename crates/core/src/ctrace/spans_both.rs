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

macro_rules! both {
    ($($told:ident($($what:ident: $of:ty),*);)*) => {
        impl<A: Sink, B: Sink> Sink for Both<'_, A, B> {
            $(fn $told(&mut self, $($what: $of),*) -> Result<()> {
                self.0.$told($($what),*)?;
                self.1.$told($($what),*)
            })*
        }
    };
}

// All that a sink is told: what is left out here would be told to nobody.
both! {
    begin(at: At, track: u32, what: Title, holder: Option<u32>, details: &[Event]);
    end(at: At, track: u32, what: Title, how: Ending, details: &[Event]);
    stint_begin(at: At, thread: u32, track: u32);
    stint_end(at: At, thread: u32, track: u32);
    instant(at: At, track: u32, name: u32, details: &[Event]);
    flow(at: At, track: u32, name: u32, id: u64, received: bool);
    counter(at: At, name: u32, value: Value);
    passed(at: At, track: u32, lock: u32, holder: Option<u32>);
    queue(at: At, track: u32, lock: u32, length: u32, got: bool);
    hold_begin(at: At, lock: u32, lane: u32, holder: u32);
    hold_end(at: At, lock: u32, lane: u32, holder: u32, how: Ending);
    job_begin(at: At, track: u32, job: Job, details: &[Event]);
    job_end(at: At, track: u32, job: Job, how: Ending, details: &[Event]);
}
