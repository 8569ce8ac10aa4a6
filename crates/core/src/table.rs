//! Columnar rows of unsigned 64-bit integers, and the names an index column stands for.

/// One table: named columns of equal length. A column named like `labels.0` holds positions in `labels.1`.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Column names, in order.
    pub columns: Vec<&'static str>,
    /// One vector a column.
    pub values: Vec<Vec<u64>>,
    /// The index column's name and the strings it points into; grows, never reordered.
    pub labels: Option<(&'static str, Vec<String>)>,
}

impl Table {
    /// An empty table.
    pub fn new(columns: &[&'static str], labels: Option<&'static str>) -> Self {
        Self {
            columns: columns.to_vec(),
            values: vec![Vec::new(); columns.len()],
            labels: labels.map(|name| (name, Vec::new())),
        }
    }

    /// Append one row; `row` has one value a column.
    pub fn push(&mut self, row: &[u64]) {
        debug_assert_eq!(row.len(), self.columns.len());
        for (column, value) in self.values.iter_mut().zip(row) {
            column.push(*value);
        }
    }

    /// Position of a label, remembered if new.
    pub fn label(&mut self, name: &str) -> u64 {
        let Some((_, labels)) = &mut self.labels else {
            return 0;
        };
        let found = labels.iter().position(|known| known == name);
        found.unwrap_or_else(|| {
            labels.push(name.to_owned());
            labels.len() - 1
        }) as u64
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.values.first().map_or(0, Vec::len)
    }

    /// The rows so far; this table goes on empty, with the same columns and labels.
    pub fn take(&mut self) -> Self {
        let empty = self.values.iter().map(|column| Vec::with_capacity(column.len())).collect();
        Self {
            columns: self.columns.clone(),
            values: std::mem::replace(&mut self.values, empty),
            labels: self.labels.clone(),
        }
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
    fn labels_keep_their_positions_across_a_take() {
        let mut table = Table::new(&["device", "reads"], Some("device"));
        let (a, b) = (table.label("vda"), table.label("vdb"));
        table.push(&[a, 1]);
        let first = table.take();
        assert_eq!((first.rows(), table.rows()), (1, 0));
        assert_eq!((table.label("vdb"), b), (1, 1));
        assert_eq!(first.column("reads"), Some(&[1][..]));
    }
}
