//! Profiles without signals: the kernel's perf events, and the heap.
