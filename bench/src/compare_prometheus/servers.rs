//! Starts a server, waits until it is ready, asks its HTTP API, ends it.

use std::error::Error;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A running server.
pub struct Server {
    pub name: &'static str,
    child: Child,
    base: String,
}

impl Server {
    pub fn start(
        name: &'static str,
        binary: &Path,
        words: &[&str],
        config: &Path,
        data: &Path,
    ) -> Result<Self, Box<dyn Error>> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        std::fs::create_dir_all(data)?;
        let log = std::fs::File::create(data.with_extension("log"))?;
        let child = Command::new(binary)
            .args(words)
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--enable-feature=promql-experimental-functions,exemplar-storage")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{}: {error}", binary.display()))?;
        let mut server = Server { name, child, base: format!("http://{address}") };
        let deadline = Instant::now() + Duration::from_secs(30);
        while ureq::get(format!("{}/-/ready", server.base)).call().is_err() {
            if let Some(status) = server.child.try_wait()? {
                let log = std::fs::read_to_string(data.with_extension("log"))?;
                return Err(format!("{name} ended with {status}: {log}").into());
            }
            if Instant::now() > deadline {
                return Err(format!("{name} isn't ready after 30 s").into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// The `data` of an answer of the API.
    pub fn api(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value, Box<dyn Error>> {
        let mut request = ureq::get(format!("{}/api/v1/{path}", self.base));
        for (name, value) in parameters {
            request = request.query(name, value);
        }
        let body = request
            .call()
            .map_err(|error| format!("{}: {path} {parameters:?}: {error}", self.name))?
            .body_mut()
            .with_config()
            .limit(1 << 30)
            .read_to_string()?;
        let mut answer: Value = serde_json::from_str(&body)?;
        Ok(answer["data"].take())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
