//! A program whose allocator is not observed is told so, rather than given an empty profile.

use profiler::heap;
use profiler::profile::{Limits, Tables};

#[test]
fn a_start_without_the_wrapper_is_an_error() {
    let tables = Tables::new(Limits { stacks: 10, bytes: 1 << 20, labels: 10 });
    let error = heap::start(heap::Options::default(), &tables).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("#[global_allocator]"), "{error}");
    assert!(!heap::is_running());
    assert_eq!(heap::thread_counts(), heap::Counts::default());
}
