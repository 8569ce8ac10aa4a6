//! Columnar rows of unsigned 64-bit integers, and the names that some columns stand for.
use std::collections::HashMap;

/// One table: named columns of equal length. The values of a labelled column are positions in its list of names.
#[derive(Debug, Clone, Default)]
pub struct Table {
    columns: Vec<&'static str>,
    values: Vec<Vec<u64>>,
    labels: Vec<Labels>,
}

/// The names a column points into; grows, never reordered.
#[derive(Debug, Clone, Default)]
struct Labels {
    column: &'static str,
    names: Vec<String>,
    positions: HashMap<String, u64>,
    taken: usize,
}

/// The rows of a table since the last take.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// Column names, in order.
    pub columns: Vec<&'static str>,
    /// One vector a column.
    pub values: Vec<Vec<u64>>,
    /// Of each labelled column: the names that came since the last take. Positions count from the first take on.
    pub names: Vec<(&'static str, Vec<String>)>,
}

impl Table {
    /// An empty table; `labelled` are those of its columns that hold positions of names.
    pub fn new(columns: &[&'static str], labelled: &[&'static str]) -> Self {
        Self {
            columns: columns.to_vec(),
            values: vec![Vec::new(); columns.len()],
            labels: labelled.iter().map(|column| Labels { column, ..Labels::default() }).collect(),
        }
    }

    /// Append one row; `row` has one value a column.
    pub fn push(&mut self, row: &[u64]) {
        debug_assert_eq!(row.len(), self.columns.len());
        for (column, value) in self.values.iter_mut().zip(row) {
            column.push(*value);
        }
    }

    /// Position of a name in the list of the `which`th labelled column, remembered if new.
    pub fn label(&mut self, which: usize, name: &str) -> u64 {
        let Some(labels) = self.labels.get_mut(which) else {
            return 0;
        };
        if let Some(position) = labels.positions.get(name) {
            return *position;
        }
        let position = labels.names.len() as u64;
        labels.names.push(name.to_owned());
        labels.positions.insert(name.to_owned(), position);
        position
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.values.first().map_or(0, Vec::len)
    }

    /// Number of values held.
    pub fn held(&self) -> usize {
        self.rows() * self.columns.len()
    }

    /// The rows so far; this table goes on empty, with the same columns and names.
    pub fn take(&mut self) -> Rows {
        let empty = self.values.iter().map(|column| Vec::with_capacity(column.len())).collect();
        Rows {
            columns: self.columns.clone(),
            values: std::mem::replace(&mut self.values, empty),
            names: self.labels.iter_mut().map(Labels::fresh).collect(),
        }
    }
}

impl Labels {
    fn fresh(&mut self) -> (&'static str, Vec<String>) {
        let new = self.names[self.taken..].to_vec();
        self.taken = self.names.len();
        (self.column, new)
    }
}

impl Rows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.values.first().map_or(0, Vec::len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One column by name.
    pub fn column(&self, name: &str) -> Option<&[u64]> {
        let at = self.columns.iter().position(|column| *column == name)?;
        Some(&self.values[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_positions_across_a_take_and_are_handed_out_once() {
        let mut table = Table::new(&["device", "reads"], &["device"]);
        let (a, b) = (table.label(0, "vda"), table.label(0, "vdb"));
        table.push(&[a, 1]);
        let first = table.take();
        assert_eq!((first.len(), table.rows()), (1, 0));
        assert_eq!(first.names, [("device", vec!["vda".to_owned(), "vdb".to_owned()])]);
        assert_eq!((table.label(0, "vdb"), b, table.label(0, "vdc")), (1, 1, 2));
        assert_eq!(table.take().names, [("device", vec!["vdc".to_owned()])]);
        assert_eq!(first.column("reads"), Some(&[1][..]));
    }
}
