//! Reading the machine again uses the memory of the first time.

use testkit::allocations::{Count, count};
use unladen::{Negotiated, Registry};

#[global_allocator]
static ALLOCATOR: testkit::allocations::Counting = testkit::allocations::Counting::new();

#[test]
fn reading_the_machine_again_allocates_nothing() {
    let registry = Registry::new();
    registry.collect(server::machine::collector());
    registry.collect(unladen::process::Process::new());
    let mut bytes = 0;
    let mut scrape = || {
        count(|| bytes = registry.write(Negotiated::default(), 0, |sum, chunk| sum + chunk.len()))
    };
    scrape();
    // A file may outgrow its room between two scrapes, by a longer number or one more mount. That is
    // growth and settles; something that allocates each time never does.
    let settles = (0..10).any(|_| scrape() == Count::ZERO);
    assert!(settles, "ten scrapes, and each allocated: the last {:?}", scrape());
    assert!(bytes > 1_000);
}
