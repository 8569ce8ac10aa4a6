//! What events lie on, described to Perfetto as each is first used: processes, threads, greenlets, locks, counters, jobs.
use std::io::Write;

use super::format::{lock, track};
use super::perfetto::Perfetto;
use super::perfetto_wire::{bytes, number};
use super::plots::Plot;

impl<W: Write> Perfetto<'_, W> {
    pub(super) fn track(&mut self, at: u32) -> u64 {
        let (uuid, new) = self.plots.number(Plot::Track(at));
        if new {
            self.describe_track(at, uuid);
        }
        uuid
    }

    #[cold]
    fn describe_track(&mut self, at: u32, uuid: u64) {
        let here = &self.trace.tracks[at as usize];
        let pid = self.trace.pid(here.file);
        let mut about = Vec::new();
        number(&mut about, 1, uuid);
        let name = self.trace.names.text(here.name).as_bytes();
        let mut inner = Vec::new();
        match (here.kind, self.trace.tid(here)) {
            (track::PROCESS, _) => {
                number(&mut inner, 1, pid);
                bytes(&mut inner, 6, name);
                bytes(&mut about, 3, &inner);
            }
            (_, Some(tid)) => {
                number(&mut inner, 1, pid);
                number(&mut inner, 2, tid);
                bytes(&mut inner, 5, name);
                bytes(&mut about, 4, &inner);
            }
            _ => {
                let parent = match here.parent {
                    // Below a line of their own, which can be folded: they may be thousands.
                    Some(thread)
                        if here.kind != track::LOOP
                            && self.trace.tracks[thread as usize].kind == track::THREAD =>
                    {
                        self.plot(Plot::Tasks(thread))
                    }
                    other => self.track(other.unwrap_or(self.trace.files[here.file as usize].process)),
                };
                number(&mut about, 5, parent);
                bytes(&mut about, 2, name);
                number(&mut about, 15, 2); // not one with others of its name
            }
        }
        self.main_packet(60, &about);
    }

    /// All of them, before anything is told: their uuids are 1 and up in the order of the files.
    pub(super) fn describe_processes(&mut self) {
        for file in 0..self.trace.files.len() as u32 {
            self.process(file);
        }
    }

    pub(super) fn process(&mut self, file: u32) -> u64 {
        self.track(self.trace.files[file as usize].process)
    }

    pub(super) fn plot(&mut self, plot: Plot) -> u64 {
        let (uuid, new) = self.plots.number(plot);
        if new {
            self.describe(plot, uuid);
        }
        uuid
    }

    #[cold]
    fn describe(&mut self, plot: Plot, uuid: u64) {
        let (trace, mut about) = (self.trace, Vec::new());
        let name_of = |lock: u32| trace.names.text(trace.locks[lock as usize].name);
        number(&mut about, 1, uuid);
        let (name, parent) = match plot {
            Plot::Track(track) => (String::new(), self.track(track)),
            Plot::Tasks(thread) => {
                let name = trace.names.text(trace.tracks[thread as usize].name);
                (format!("on {name}"), self.track(thread))
            }
            Plot::Locks(file) => ("locks".to_owned(), self.process(file)),
            Plot::Lock { lock, .. } => {
                number(&mut about, 15, 3); // one with others of its key
                number(&mut about, 17, u64::from(lock) + 1);
                let here = &trace.locks[lock as usize];
                let (name, site) = (trace.names.text(here.name), trace.names.text(here.site));
                let title = if site.is_empty() || site == name {
                    name.to_owned()
                } else {
                    format!("{name} ({site})")
                };
                (title, self.plot(Plot::Locks(here.file)))
            }
            Plot::Length(lock) => {
                bytes(&mut about, 8, &[]);
                let unit = if lock::is_queue(trace.locks[lock as usize].kind) { "length" } else { "value" };
                (format!("{} {unit}", name_of(lock)), self.plot(Plot::Locks(trace.locks[lock as usize].file)))
            }
            Plot::Counter { file, name } => {
                bytes(&mut about, 8, &[]);
                (trace.names.text(name).to_owned(), self.process(file))
            }
            Plot::Job { file, name, .. } => (format!("job {}", trace.names.text(name)), self.process(file)),
        };
        number(&mut about, 5, parent);
        bytes(&mut about, 2, name.as_bytes());
        self.main_packet(60, &about);
    }
}
