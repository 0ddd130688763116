//! The series and their samples: `peers/WORKLOADS.md` has them exactly.

use store::Labels;

/// Series of a target.
pub const PER_TARGET: usize = 1000;
/// Time of the first sample, and from one to the next, in milliseconds.
pub const START: i64 = 1_700_000_000_000;
/// See [`START`].
pub const INTERVAL: i64 = 10_000;

/// The labels of a series, as a cluster's containers have them: ten, 200 bytes.
pub fn labels(series: usize) -> Labels {
    let (target, own) = (series / PER_TARGET, series % PER_TARGET);
    let name = format!("container_network_receive_total_{}", own / 10);
    let instance = format!("10.{}.{}.7:8080", target / 250, target % 250);
    let interface = format!("eth{}", own % 10);
    let namespace = format!("team-{}", target % 20);
    let node = format!("node-{:03}.internal", target / 10);
    let pod = format!("checkout-api-7d9f8b6c5d-{target:05}");
    Labels::from_sorted(&[
        ("__name__", &name),
        ("cluster", "europe-west-1"),
        ("container", "application"),
        ("instance", &instance),
        ("interface", &interface),
        ("job", "kubernetes-pods"),
        ("namespace", &namespace),
        ("node", &node),
        ("pod", &pod),
        ("service", "checkout-api"),
    ])
}

/// What every engine draws the same numbers from.
pub struct Chance(u64);

impl Chance {
    /// Starts with the seed 1.
    pub fn new() -> Self {
        Chance(1)
    }

    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// The next value of a series. Half of them stand still; the others count, in whole numbers and in
    /// hundredths, or are new each time, as whole numbers and as fractions.
    pub fn step(&mut self, series: usize, value: f64) -> f64 {
        match series % 20 {
            0..10 => value,
            10..16 => value + (self.next() % 500) as f64,
            16..18 => {
                let hundredths = (value * 100.0 + 0.5) as i64;
                (hundredths as f64 + (self.next() % 1000) as f64) / 100.0
            }
            18 => (self.next() % (1 << 20)) as f64,
            _ => self.next() as f64 / (1u64 << 31) as f64,
        }
    }
}
