//! Who of the head holds how much memory.

use super::Core;

/// Bytes of memory that the head holds, by part, as far as it knows. What is mapped from files is not
/// among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// A row for each series: its last value, its state, where its chunks are. Rows come in pages, which
    /// count as far as the process has them: of each shard, up to 2 MiB that no series has yet, and the rows
    /// of series that left.
    pub rows: u64,
    /// Chunks that are being filled, in pages as rows are; with blocks that wait for the next chunk.
    pub open_chunks: u64,
    /// Which series have which labels.
    pub index: u64,
    /// The strings of the labels.
    pub symbols: u64,
    /// Batches on their way to the journal, and chunks on their way to their file.
    pub journal_buffers: u64,
    /// Exemplars.
    pub exemplars: u64,
    /// Tables of where things are in the files of series that left the head.
    pub departed: u64,
}

impl Memory {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.rows
            + self.open_chunks
            + self.index
            + self.symbols
            + self.journal_buffers
            + self.exemplars
            + self.departed
    }
}

/// Asks all parts. Each shard is locked for a moment; nothing is scanned.
pub(super) fn memory(core: &Core) -> Memory {
    let head = &core.head;
    let mut memory =
        Memory { exemplars: head.exemplars.lock().memory() as u64, ..Memory::default() };
    let view = core.view.read().clone();
    memory.departed = view.departed.iter().map(|departed| departed.memory() as u64).sum();
    drop(view);
    let index = head.index.read();
    memory.symbols = index.symbols_memory() as u64;
    memory.index = index.memory() as u64 - memory.symbols;
    drop(index);
    for shard in &head.shards {
        let shard = shard.lock();
        let (rows, open_chunks) = (shard.rows.memory() as u64, shard.slab.memory() as u64);
        memory.rows += rows;
        memory.open_chunks += open_chunks;
        memory.journal_buffers += (shard.memory() as u64).saturating_sub(rows + open_chunks);
    }
    memory
}
