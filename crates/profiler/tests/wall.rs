//! Threads are found doing what they do, for as long as they do it. All in one function: there is one
//! profiler in a process.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use profiler::Profiler;
use profiler::profile::{Window, WriteOptions};
use profiler::symbols::Resolver;
use wire::pprof::{Document, LabelValue};

/// A sample of a profile that was read back.
#[derive(Debug)]
struct Read {
    functions: Vec<String>,
    labels: BTreeMap<String, String>,
    samples: i64,
    wall: i64,
    cpu: i64,
}

impl Read {
    fn thread(&self) -> &str {
        self.labels.get("thread name").map_or("", |name| name)
    }

    fn has(&self, function: &str) -> bool {
        self.functions.iter().any(|name| name.ends_with(function))
    }
}

/// What a window has, by way of the bytes that it writes.
fn read(window: &mut Window) -> Vec<Read> {
    let mut resolver = Resolver::of_process();
    let options = WriteOptions { symbolizer: Some(&mut resolver), ..WriteOptions::default() };
    let bytes = window.write(options, Vec::new(), |mut bytes, chunk| {
        bytes.extend_from_slice(chunk);
        bytes
    });
    let document = Document::read(&bytes).expect("what we write can be read");
    let read = document.samples().map(|sample| {
        let text = |id| document.text(id).into_owned();
        let value = |value| match value {
            LabelValue::Text(id) => text(id),
            LabelValue::Number { value, .. } => value.to_string(),
        };
        let values: Vec<_> = sample.values.collect();
        Read {
            functions: document
                .frames(sample.locations)
                .filter_map(|frame| frame.function.map(|function| text(function.name)))
                .collect(),
            labels: sample.labels.map(|label| (text(label.key), value(label.value))).collect(),
            samples: values[0],
            wall: values[1],
            cpu: values[2],
        }
    });
    read.collect()
}

/// Threads that end when this is dropped.
struct Crew {
    stop: Arc<AtomicBool>,
    sleepers: Vec<mpsc::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Crew {
    fn new() -> Crew {
        Crew { stop: Arc::default(), sleepers: Vec::new(), threads: Vec::new() }
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce(Arc<AtomicBool>) + Send + 'static) {
        let stop = self.stop.clone();
        let (say, hear) = mpsc::channel();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            say.send(()).unwrap();
            work(stop);
        });
        self.threads.push(thread.unwrap());
        // It has its name by then: what is sampled before belongs to that of who started it.
        hear.recv().unwrap();
    }

    fn sleep(&mut self, name: &str) {
        let (sender, receiver) = mpsc::channel();
        self.sleepers.push(sender);
        self.spawn(name, move |_| sleeping(&receiver));
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.sleepers.clear();
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

#[inline(never)]
fn sleeping(receiver: &mpsc::Receiver<()>) {
    let _ = receiver.recv();
}

#[inline(never)]
fn working(stop: &AtomicBool) {
    let mut sum = 0u64;
    while !stop.load(Relaxed) {
        for i in 0..1000u64 {
            sum = black_box(sum ^ i.wrapping_mul(0x9e37_79b9));
        }
    }
}

#[inline(never)]
fn answering(stop: &AtomicBool) {
    working(stop);
}

/// Waits; `turn` tells the two apart, which otherwise are one to a compiler.
#[inline(never)]
#[expect(clippy::disallowed_methods, reason = "how long it waits is the subject")]
fn waiting_long(turn: u64) -> u64 {
    std::thread::sleep(Duration::from_millis(3));
    black_box(turn + 1)
}

#[inline(never)]
#[expect(clippy::disallowed_methods, reason = "how long it waits is the subject")]
fn waiting_short(turn: u64) -> u64 {
    std::thread::sleep(Duration::from_millis(1));
    black_box(turn + 2)
}

/// Works a little, and waits in one place or the other. Returns the part of the waits' time that the first
/// one had.
fn taking_turns(stop: &AtomicBool) -> f64 {
    let mut waited = [Duration::ZERO; 2];
    let mut turn = 0;
    while !stop.load(Relaxed) {
        for (place, waited) in waited.iter_mut().enumerate() {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(200) {}
            let begun = Instant::now();
            turn = if place == 0 { waiting_long(turn) } else { waiting_short(turn) };
            *waited += begun.elapsed();
        }
    }
    waited[0].as_secs_f64() / (waited[0] + waited[1]).as_secs_f64()
}

/// Time itself is the subject here.
fn pass(time: Duration) {
    let until = Instant::now() + time;
    while let Some(rest) = until.checked_duration_since(Instant::now()).filter(|d| !d.is_zero()) {
        std::thread::park_timeout(rest);
    }
}

#[test]
fn a_profiler() {
    refuses_what_makes_no_sense();
    totals_are_true();
    threads_that_end_keep_their_time();
    sleepers_are_left_alone();
    who_waits_again_is_left_alone_and_gets_each_wait_its_time();
    one_who_runs_is_seen_among_many_who_sleep();
    stacks_are_as_deep_as_asked_for();
    a_thread_that_blocks_the_signal_is_told_so();
    labels_are_the_programs();
    threads_show_what_they_do();
    nothing_is_sampled_without_a_budget();
    the_budget_is_kept();
}

fn refuses_what_makes_no_sense() {
    let error = |share| Profiler::builder().budget(share).start().unwrap_err().to_string();
    assert!(error(-0.1).contains("-0.1 is not a share"));
    assert!(error(f64::NAN).contains("NaN is not a share"));
    let error = Profiler::builder().signal(libc::SIGKILL).start().unwrap_err().to_string();
    assert!(error.contains("can't sample here"), "{error}");
    let first = Profiler::start().unwrap();
    let error = Profiler::start().unwrap_err().to_string();
    assert!(error.contains("is running in this process"), "{error}");
    assert!(first.is_running());
    first.stop();
    first.stop();
    assert!(!first.is_running());
    // The place is free again, also after a refusal.
    drop(Profiler::start().unwrap());
}

/// Each thread's wall-clock time adds up to how long it was there, the process' processor time to what the
/// kernel says.
fn totals_are_true() {
    let mut crew = Crew::new();
    for i in 0..5 {
        crew.spawn(&format!("busy {i}"), |stop| working(&stop));
    }
    for i in 0..60 {
        crew.sleep(&format!("asleep {i}"));
    }
    let profiler = Profiler::start().unwrap();
    // What was until now belongs to nobody's window.
    profiler.settle();
    let mut window = profiler.wall().window();
    let (begun, cpu_before) = (Instant::now(), process_cpu());
    pass(Duration::from_millis(1500));
    // Threads that nobody ever looks at.
    for _ in 0..20 {
        std::thread::spawn(|| {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(2) {
                black_box(0);
            }
        })
        .join()
        .unwrap();
    }
    // Up to when time is given lies somewhere in between.
    let (least, least_cpu) = (begun.elapsed(), process_cpu() - cpu_before);
    profiler.settle();
    let (most, most_cpu) = (begun.elapsed(), process_cpu() - cpu_before);
    let samples = read(&mut window);
    let mut walls: BTreeMap<&str, i64> = BTreeMap::new();
    for sample in &samples {
        *walls.entry(sample.thread()).or_default() += sample.wall;
    }
    let expected = least.as_nanos() as i64 - 20_000_000..most.as_nanos() as i64 + 50_000_000;
    let mut crew_seen = 0;
    for (thread, wall) in &walls {
        if thread.starts_with("busy") || thread.starts_with("asleep") {
            crew_seen += 1;
            assert!(expected.contains(wall), "{thread}: {wall} of {expected:?}");
        }
    }
    assert_eq!(crew_seen, 65, "{walls:?}");
    let sum = samples.iter().map(|sample| sample.cpu).sum::<i64>();
    let (least, most) = (least_cpu as i64 * 49 / 50, most_cpu as i64 * 51 / 50);
    assert!((least - 20_000_000..most + 50_000_000).contains(&sum), "{sum} of {least} to {most}");
    let ended: i64 = samples.iter().filter(|s| s.has("[ended threads]")).map(|s| s.cpu).sum();
    assert!(ended > 10_000_000, "what ended threads had is not lost: {ended}");

    // Who is busy is found busy, who sleeps sleeping; processor time goes to those that ran.
    let share = |thread: &str, function: &str, value: fn(&Read) -> i64| {
        let of_thread = || samples.iter().filter(|s| s.thread().starts_with(thread));
        let of_function = of_thread().filter(|s| s.has(function)).map(value).sum::<i64>();
        of_function as f64 / of_thread().map(value).sum::<i64>().max(1) as f64
    };
    assert!(share("busy", "working", |s| s.cpu) > 0.95);
    assert!(share("asleep", "sleeping", |s| s.wall) > 0.95);
    let statistics = profiler.statistics();
    assert!(statistics.complete * 1000 >= (statistics.complete + statistics.lost) * 999);
}

/// What a thread had when it ended is not lost, though nobody saw it end.
fn threads_that_end_keep_their_time() {
    let profiler = Profiler::start().unwrap();
    let mut window = profiler.wall().window();
    let mut lived = 0;
    for _ in 0..8 {
        let begun = Instant::now();
        let brief = std::thread::Builder::new().name("brief".into());
        brief.spawn(|| pass(Duration::from_millis(250))).unwrap().join().unwrap();
        lived += begun.elapsed().as_nanos() as i64;
    }
    profiler.settle();
    let samples = read(&mut window);
    let theirs = |s: &&Read| s.thread() == "brief" || s.has("[ended threads]");
    let wall: i64 = samples.iter().filter(theirs).map(|sample| sample.wall).sum();
    // Ticks are up to a quarter of a second apart where so little is done; where in between one ended is
    // not known.
    assert!((wall - lived).abs() < 8 * 100_000_000, "{wall} of {lived}");
}

/// Who runs is seen, however many sleep.
fn one_who_runs_is_seen_among_many_who_sleep() {
    let mut crew = Crew::new();
    for i in 0..300 {
        crew.sleep(&format!("asleep {i}"));
    }
    crew.spawn("busy", |stop| working(&stop));
    // To meet hundreds of threads takes more than the usual budget of the first seconds.
    let profiler = Profiler::builder().budget(0.5).start().unwrap();
    pass(Duration::from_millis(700));
    let mut window = profiler.wall().window();
    let before = profiler.statistics();
    pass(Duration::from_secs(1));
    let ticks = profiler.statistics().ticks - before.ticks;
    let samples = read(&mut window);
    let seen: i64 = samples.iter().filter(|s| s.has("working")).map(|s| s.samples).sum();
    // A round takes five ticks, of which the pauses don't grow.
    assert!(seen >= 3, "{seen} of {ticks} ticks");
}

fn process_cpu() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A thread that sleeps is interrupted once or twice, and then never again.
fn sleepers_are_left_alone() {
    let mut crew = Crew::new();
    for i in 0..20 {
        crew.sleep(&format!("asleep {i}"));
    }
    let profiler = Profiler::builder().tick(Duration::from_millis(2)).start().unwrap();
    pass(Duration::from_millis(500));
    let before = profiler.statistics();
    // What they are owed from before is not of this half second.
    profiler.settle();
    let mut window = profiler.wall().window();
    pass(Duration::from_millis(500));
    let after = profiler.statistics();
    // Of this thread and the harness' at most, which wake up themselves.
    let (signals, asleep) = (after.signals - before.signals, after.asleep - before.asleep);
    assert!(signals < 40, "{signals}");
    assert!(asleep > 20 * 5, "{asleep}");
    profiler.settle();
    let samples = read(&mut window);
    let sleeping = samples.iter().filter(|s| s.has("sleeping"));
    let wall = sleeping.map(|s| s.wall).sum::<i64>();
    assert!((9_000_000_000..11_500_000_000).contains(&wall), "{wall}");
}

/// A thread that ran and waits again is interrupted once in a while only. Where two ways lead to the same
/// place to wait at, each gets the time that is spent on it.
fn who_waits_again_is_left_alone_and_gets_each_wait_its_time() {
    let mut crew = Crew::new();
    let (say, hear) = mpsc::channel();
    crew.spawn("turns", move |stop| say.send(taking_turns(&stop)).unwrap());
    let builder = Profiler::builder().tick(Duration::from_millis(1));
    let profiler = builder.budget(1.0).start().unwrap();
    pass(Duration::from_millis(100));
    let before = profiler.statistics();
    let mut window = profiler.wall().window();
    // As many looks as make chance small, however long a busy machine takes for them.
    let until = Instant::now() + Duration::from_secs(60);
    while profiler.statistics().samples < before.samples + 1500 && Instant::now() < until {
        pass(Duration::from_millis(100));
    }
    profiler.settle();
    let after = profiler.statistics();
    let (signals, samples) = (after.signals - before.signals, after.samples - before.samples);
    // This thread and the harness' have one each, and the one at work is found running now and then.
    assert!(signals < samples / 3, "{signals} of {samples}");
    let samples = read(&mut window);
    drop(crew);
    let wall = |function| {
        let found = samples.iter().filter(|s| s.thread() == "turns" && s.has(function));
        found.map(|s| s.wall).sum::<i64>() as f64
    };
    let (long, short) = (wall("waiting_long"), wall("waiting_short"));
    let (found, true_part) = (long / (long + short), hear.recv().unwrap());
    assert!((found - true_part).abs() < 0.2, "{found} where it was {true_part}");
}

/// Its time goes to a frame that says so, and no signal waits for it.
fn a_thread_that_blocks_the_signal_is_told_so() {
    let mut crew = Crew::new();
    let (say, hear) = mpsc::channel();
    crew.spawn("blocking", move |stop| {
        // SAFETY: blocks all signals of this thread.
        let tid = unsafe {
            let mut all = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
            libc::gettid()
        };
        say.send(tid).unwrap();
        working(&stop);
    });
    let tid = hear.recv().unwrap();
    let profiler = Profiler::start().unwrap();
    let mut window = profiler.wall().window();
    pass(Duration::from_millis(300));
    profiler.settle();
    let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap();
    assert!(status.contains("SigPnd:\t0000000000000000"), "{status}");
    let samples = read(&mut window);
    let (mut blocked, mut others) = (0, 0);
    for sample in samples.iter().filter(|sample| sample.thread() == "blocking") {
        let wall = if sample.has("[signals blocked]") { &mut blocked } else { &mut others };
        *wall += sample.wall;
    }
    assert!(blocked > 250_000_000, "{blocked} and {others}");
    assert!(profiler.statistics().skipped_blocked > 0);
    let threads = profiler.threads();
    let thread = threads.iter().find(|thread| thread.name == "blocking").unwrap();
    assert!(thread.is_blocked && thread.addresses.is_empty());
}

/// Scopes are in the samples that were taken in them.
fn labels_are_the_programs() {
    let mut crew = Crew::new();
    let profiler = Profiler::start().unwrap();
    let mut window = profiler.wall().window();
    crew.spawn("labelled", |stop| {
        let _endpoint = profiler::scope("endpoint", "checkout");
        let _customer = profiler::scope("customer", "a");
        answering(&stop);
    });
    crew.spawn("plain", |stop| working(&stop));
    let begun = Instant::now();
    let mut seen = 0;
    // On a busy machine it takes a while until they have had a processor.
    while seen <= 3 {
        assert!(begun.elapsed() < Duration::from_secs(30), "{seen} samples");
        pass(Duration::from_millis(200));
        profiler.settle();
        seen += labelled(&read(&mut window));
    }
}

/// How many samples of the labelled thread there are, all of them with its labels.
fn labelled(samples: &[Read]) -> i64 {
    let mut seen = 0;
    for sample in samples.iter().filter(|sample| sample.has("working")) {
        let labels = [sample.labels.get("customer"), sample.labels.get("endpoint")];
        let labels = labels.map(|label| label.map(String::as_str));
        match sample.thread() {
            "labelled" if sample.has("answering") => {
                assert_eq!(labels, [Some("a"), Some("checkout")]);
                seen += sample.samples;
            }
            "plain" => assert_eq!(labels, [None, None]),
            _ => {}
        }
    }
    seen
}

fn stacks_are_as_deep_as_asked_for() {
    let mut crew = Crew::new();
    crew.sleep("asleep");
    // The second one has the first one's room.
    for depth in [600, 3] {
        let profiler = Profiler::builder().max_depth(depth).start().unwrap();
        // It gets its name when it runs already.
        let asleep = loop {
            let threads = profiler.threads();
            if let Some(asleep) = threads.into_iter().find(|thread| thread.name == "asleep") {
                break asleep;
            }
        };
        assert!((3..=depth).contains(&asleep.addresses.len()), "{asleep:?}");
    }
}

fn threads_show_what_they_do() {
    let mut crew = Crew::new();
    for i in 0..100 {
        crew.sleep(&format!("asleep {i}"));
    }
    crew.spawn("busy", |stop| working(&stop));
    let profiler = Profiler::start().unwrap();
    let threads = profiler.threads();
    let sleeping = threads.iter().filter(|thread| thread.name.starts_with("asleep"));
    // Each has a stack, more of them than there are slots.
    assert_eq!(sleeping.filter(|thread| thread.addresses.len() > 5).count(), 100);
    let own = profiler::Tid::own();
    assert!(threads.iter().any(|thread| thread.tid == own && thread.addresses.len() > 5));
}

fn nothing_is_sampled_without_a_budget() {
    let profiler = Profiler::builder().budget(0.0).start().unwrap();
    assert!(!profiler.is_running());
    // It keeps nobody else from starting.
    let other = Profiler::start().unwrap();
    profiler.settle();
    assert_eq!(profiler.threads(), []);
    assert_eq!(profiler.statistics().ticks, 0);
    assert!(other.is_running());
}

fn the_budget_is_kept() {
    let mut crew = Crew::new();
    for i in 0..30 {
        crew.spawn(&format!("busy {i}"), |stop| working(&stop));
    }
    let tick = Duration::from_micros(100);
    let profiler = Profiler::builder().tick(tick).budget(0.02).start().unwrap();
    pass(Duration::from_millis(200));
    let (before, begun) = (profiler.statistics(), Instant::now());
    pass(Duration::from_secs(2));
    let (after, elapsed) = (profiler.statistics(), begun.elapsed());
    let share = (after.cost_ns() - before.cost_ns()) as f64 / elapsed.as_nanos() as f64;
    // A last tick may have been dear.
    assert!(share < 0.03, "{share}");
    assert!(after.ticks_skipped > before.ticks_skipped);
    assert!(after.samples > before.samples);
}
