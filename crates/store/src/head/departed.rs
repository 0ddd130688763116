//! Which series have departed from the head, as a start finds it: their rows are not to come back.
//!
//! Definitions and chunks of a departed series stay in the files that they share with others. A row is
//! told by its number and generation, and by the last time up to which its samples are safe elsewhere:
//! one that got samples after that is still the head's.

/// A row of a series that departed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DepartedRow {
    /// The row's shard.
    pub(crate) shard: u32,
    pub(crate) row: u32,
    pub(crate) generation: u32,
    /// The time of the last sample that departed.
    pub(crate) until: i64,
}

/// All rows of departed series.
#[derive(Default)]
pub(crate) struct DepartedRows(Vec<DepartedRow>);

impl DepartedRows {
    /// Takes them in any order, and repeatedly.
    pub(crate) fn new(mut rows: Vec<DepartedRow>) -> Self {
        rows.sort_unstable();
        DepartedRows(rows)
    }

    /// Until when the samples of a series have departed; `None` if it is the head's.
    pub(crate) fn until(&self, shard: usize, row: u32, generation: u32) -> Option<i64> {
        let key = (shard as u32, row, generation);
        let behind =
            self.0.partition_point(|other| (other.shard, other.row, other.generation) <= key);
        let last = self.0.get(behind.checked_sub(1)?)?;
        ((last.shard, last.row, last.generation) == key).then_some(last.until)
    }

    /// The highest generation of a shard, 0 if there is none.
    pub(crate) fn generation(&self, shard: usize) -> u32 {
        let of_shard = self.0.iter().filter(|row| row.shard == shard as u32);
        of_shard.map(|row| row.generation).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_time_of_a_row_and_generation_is_found() {
        let row = |shard, row, generation, until| DepartedRow { shard, row, generation, until };
        let rows = vec![row(1, 7, 2, 50), row(0, 7, 1, 9), row(1, 7, 2, 80), row(1, 7, 4, -3)];
        let rows = DepartedRows::new(rows);
        for (shard, number, generation, until) in [
            (0, 7, 1, Some(9)),
            (1, 7, 2, Some(80)),
            (1, 7, 4, Some(-3)),
            (1, 7, 3, None),
            (1, 6, 2, None),
            (0, 7, 2, None),
            (2, 0, 0, None),
        ] {
            assert_eq!(rows.until(shard, number, generation), until, "{shard} {number}");
        }
        assert_eq!([rows.generation(0), rows.generation(1), rows.generation(2)], [1, 4, 0]);
        assert_eq!(DepartedRows::default().until(0, 0, 0), None);
    }
}
