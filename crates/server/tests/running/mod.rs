//! A server under test: the real binary in a process of its own, asked over HTTP.

#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A running `unladen serve`; killed when dropped.
pub struct Running {
    child: Child,
    address: SocketAddr,
    log: std::path::PathBuf,
}

/// Samples by series (its labels as JSON, keys sorted): milliseconds and the value as it was written.
pub type Samples = BTreeMap<String, Vec<(i64, String)>>;

/// A free port of the loopback interface.
pub fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
}

/// Asks until `condition` gives something, for at most `seconds`.
pub fn wait_for<T>(what: &str, seconds: u64, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {seconds} s in vain for {what}");
        pause(Duration::from_millis(5));
    }
}

/// Lets time pass between two looks at a condition of another process.
#[expect(clippy::disallowed_methods, reason = "another process has no condition to wait on")]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

impl Running {
    /// Starts with the configuration file `config` in `directory`, its data in `directory/data`, and
    /// waits until it is ready.
    pub fn start(directory: &Path, config: &str, flags: &[&str]) -> Self {
        Running::start_as(&["serve"], directory, config, flags)
    }

    /// As [`Running::start`], with other words before the flags.
    pub fn start_as(words: &[&str], directory: &Path, config: &str, flags: &[&str]) -> Self {
        let file = directory.join("prometheus.yml");
        std::fs::write(&file, config).expect("the configuration is written");
        let address = free_address();
        let log = directory.join("log");
        let child = Command::new(env!("CARGO_BIN_EXE_unladen"))
            .args(words)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", directory.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .args(flags)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).expect("the log is created"))
            .spawn()
            .expect("the binary starts");
        let mut running = Running { child, address, log };
        wait_for("/-/ready", 60, || {
            if let Some(status) = running.child.try_wait().expect("its state is known") {
                panic!("the server ended with {status}:\n{}", running.log());
            }
            ureq::get(running.url("/-/ready")).call().ok()
        });
        running
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What the server has logged so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The process id, for signals.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The `data` of an answer of the API; `None` if there was no answer.
    pub fn api(&self, path: &str, parameters: &[(&str, &str)]) -> Option<Value> {
        let mut request = ureq::get(self.url(&format!("/api/v1/{path}")));
        for (name, value) in parameters {
            request = request.query(name, value);
        }
        let mut response = request.call().ok()?;
        let body = response.body_mut().with_config().limit(1 << 30).read_to_string().ok()?;
        let mut answer: Value = serde_json::from_str(&body).ok()?;
        Some(answer["data"].take())
    }

    /// All samples that a range selector sees now.
    pub fn samples(&self, selector: &str) -> Option<Samples> {
        let answer = self.api("query", &[("query", selector)])?;
        let mut all = Samples::new();
        for series in answer["result"].as_array()? {
            let values = series["values"].as_array()?.iter().map(|pair| {
                let seconds = pair[0].as_f64().expect("a timestamp");
                let value = pair[1].as_str().expect("a value").to_owned();
                ((seconds * 1000.0).round() as i64, value)
            });
            all.insert(series["metric"].to_string(), values.collect());
        }
        Some(all)
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let id = i32::try_from(self.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(id.expect("a process id"), signal).expect("it is ours");
    }

    /// Waits for its end and gives the exit code; `None` where a signal ended it.
    pub fn exit_code(mut self) -> Option<i32> {
        let status = wait_for("the end of the server", 30, || {
            self.child.try_wait().expect("its state is known")
        });
        status.code()
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().expect("it is ours to kill");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
