//! The allocator's wrapper: samples by bytes, and counts by stage.
