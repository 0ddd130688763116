//! A server that starts on what a killed one left: when it is ready, what it took, what it shows.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bench::Failure;
use serde_json::Value;

use crate::process;
use crate::workload::{self, METRICS, Workload};

/// Whoever isn't ready by then has failed.
const PATIENCE: Duration = Duration::from_secs(600);

/// A running server.
pub struct Server {
    child: Child,
    address: SocketAddr,
    /// From its start to the first "ready", in seconds.
    pub seconds: f64,
    /// CPU time up to then, in seconds.
    pub cpu_seconds: f64,
    /// The resident peak up to then, in bytes.
    pub peak: f64,
}

impl Server {
    /// Starts `program` on `data` with a configuration that scrapes nothing, and waits until it is ready.
    pub fn start(program: &Path, words: &[&str], data: &Path) -> Result<Server, Failure> {
        Server::configured(program, words, data, "global: {scrape_interval: 1h}\n")
    }

    /// As [`Server::start`], with another configuration.
    pub fn configured(
        program: &Path,
        words: &[&str],
        data: &Path,
        configuration: &str,
    ) -> Result<Server, Failure> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let config = data.with_extension("yml");
        std::fs::write(&config, configuration)?;
        let log = data.with_extension("log");
        let begun = Instant::now();
        let child = Command::new(program)
            .args(words)
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log)?)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let mut server = Server { child, address, seconds: 0.0, cpu_seconds: 0.0, peak: 0.0 };
        while !server.is_ready() {
            if let Some(status) = server.child.try_wait()? {
                let said = std::fs::read_to_string(&log)?;
                return Err(format!("{} ended with {status}: {said}", program.display()).into());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("{} is not ready after 10 minutes", program.display()).into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        server.seconds = begun.elapsed().as_secs_f64();
        server.cpu_seconds = process::cpu_seconds(server.child.id())?;
        server.peak = process::status(server.child.id(), "VmHWM:")?;
        Ok(server)
    }

    fn is_ready(&self) -> bool {
        let ask = || -> std::io::Result<bool> {
            let mut stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(1))?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            stream
                .write_all(b"GET /-/ready HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
            let mut status = [0; 12];
            stream.read_exact(&mut status)?;
            Ok(status.ends_with(b" 200"))
        };
        ask().unwrap_or(false)
    }

    /// Resident memory now, in bytes.
    pub fn resident(&self) -> Result<f64, Failure> {
        process::status(self.child.id(), "VmRSS:")
    }

    /// The number of samples that queries find up to `time`.
    pub fn samples(&self, workload: &Workload, time: i64) -> Result<u64, Failure> {
        let mut samples = 0.0;
        for metric in 0..METRICS {
            let query = format!("sum(count_over_time({}[1h]))", workload::metric(metric));
            samples += self.query(&query, time)?.unwrap_or(0.0);
        }
        if self.query("count({__name__!=\"\"})", time)? != Some(workload.all_series() as f64) {
            return Err("series are missing, or there are others".into());
        }
        Ok(samples as u64)
    }

    /// The sum of a metric's values up to `time`.
    pub fn sum(&self, metric: usize, time: i64) -> Result<f64, Failure> {
        let query = format!("sum(sum_over_time({}[1h]))", workload::metric(metric));
        Ok(self.query(&query, time)?.unwrap_or(0.0))
    }

    /// Series in its head.
    pub fn head_series(&self) -> Result<f64, Failure> {
        let mut answer = ureq::get(format!("http://{}/api/v1/status/tsdb", self.address))
            .call()
            .map_err(|error| format!("status/tsdb: {error}"))?;
        let answer: Value = serde_json::from_str(&answer.body_mut().read_to_string()?)?;
        let series = answer["data"]["headStats"]["numSeries"].as_f64();
        series.ok_or_else(|| "it does not tell how many series are in its head".into())
    }

    fn query(&self, query: &str, time: i64) -> Result<Option<f64>, Failure> {
        let mut answer = ureq::get(format!("http://{}/api/v1/query", self.address))
            .query("query", query)
            .query("time", format!("{}.{:03}", time / 1000, time % 1000))
            .call()
            .map_err(|error| format!("{query}: {error}"))?;
        let answer: Value = serde_json::from_str(&answer.body_mut().read_to_string()?)?;
        let value = answer["data"]["result"][0]["value"][1].as_str();
        Ok(value.map(str::parse).transpose()?)
    }

    /// Ends it as a crash does.
    pub fn kill(mut self) -> Result<(), Failure> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Ends it as a user does.
    pub fn stop(mut self) -> Result<(), Failure> {
        let id = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let id = id.ok_or("a process without an id")?;
        rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
