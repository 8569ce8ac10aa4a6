//! What a span is, by the ARG `kind` that follows its BEGIN.
use super::format::{Event, event};
use super::reader::Trace;

/// Of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SpanKind {
    /// Work.
    #[default]
    Plain,
    /// A call that leaves the process.
    Remote,
    /// A system call that waits for a file, a socket or a child.
    Io,
    /// One that waits for time to pass.
    Sleep,
    /// A collection of garbage: its thread keeps the interpreter to its end.
    Collection,
}

impl SpanKind {
    /// Whether it is one system call, inside which nothing is told.
    pub const fn is_system_call(self) -> bool {
        matches!(self, Self::Io | Self::Sleep)
    }
}

/// Where these words are in the names of a trace.
#[derive(Debug, Clone, Copy)]
pub struct SpanKinds {
    key: Option<u32>,
    words: [(Option<u32>, SpanKind); 4],
}

impl SpanKinds {
    /// Of that trace.
    pub fn new(trace: &Trace) -> Self {
        let word = |text, kind| (trace.names.find(text), kind);
        Self {
            key: trace.names.find("kind"),
            words: [
                word("remote", SpanKind::Remote),
                word("io", SpanKind::Io),
                word("sleep", SpanKind::Sleep),
                word("gc", SpanKind::Collection),
            ],
        }
    }

    /// By the details of its BEGIN.
    pub fn of(&self, trace: &Trace, file: u32, details: &[Event]) -> SpanKind {
        if details.is_empty() || self.key.is_none() {
            return SpanKind::Plain;
        }
        let told = details.iter().filter(|detail| detail.kind() == event::ARG);
        let values = told.filter(|detail| Some(trace.name(file, detail.id())) == self.key);
        let kinds = values.filter_map(|detail| {
            let value = Some(trace.name(file, detail.value()));
            self.words.iter().find(|word| word.0 == value).map(|word| word.1)
        });
        kinds.into_iter().next().unwrap_or_default()
    }
}
