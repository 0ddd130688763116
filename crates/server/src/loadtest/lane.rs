//! A server with a fleet of its own: started, looked at, killed and started again.
//!
//! Each server has its own fleet, with the same seed, so that what a fleet counted is what one server took,
//! also side by side. Samples, their evenness and missed scrapes are the fleet's counts: no server counts for
//! itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::ask;
use super::blocks::Blocks;
use super::child::{Started, free_port};
use super::contender::{self, Contender, Given, Kind};
use super::options::Load;
use super::outcome::{
    Allocated, Cpu, Disk, FleetCost, Memory, Moment, Outcome, Restart, Switches, variation,
};
use super::process::{Look, Process, directory_bytes, in_memory};
use super::served::{Served, Totals};

/// Series that are new to the head, of servers that count them.
const CREATED: (&str, &str) = ("prometheus_tsdb_head_series_created_total", "");

/// A server and its fleet, both running.
pub(super) struct Lane {
    contender: Contender,
    load: Load,
    fleet: Started,
    fleet_address: String,
    fleet_process: Process,
    server: Started,
    address: String,
    process: Process,
    arguments: Vec<String>,
    data: PathBuf,
    log: PathBuf,
    /// When the measured time began.
    begin: Option<Begin>,
    last: Option<Look>,
    course: Vec<Moment>,
    /// When the measured time ended.
    ended: f64,
    /// What the journal grew by, and how large it was when it was last looked at.
    journal: (u64, u64),
}

/// What was so when the measured time began.
struct Begin {
    at: f64,
    look: Look,
    fleet: Look,
    served: Totals,
    /// The fleet's second.
    second: u64,
    allocated: Option<f64>,
    ingested: Option<f64>,
    created: Option<f64>,
    bytes: u64,
}

impl Lane {
    /// Starts the fleet, then the server, in `directory`, and waits until both answer.
    ///
    /// # Errors
    /// One of them doesn't start.
    pub(super) async fn start(
        contender: &Contender,
        load: &Load,
        directory: &Path,
        sink: &str,
    ) -> Result<Self, String> {
        let place = directory.join(contender.name.replace(' ', "-"));
        let data = place.join("data");
        let made = |error: std::io::Error| format!("{}: {error}", place.display());
        std::fs::create_dir_all(&data).map_err(made)?;
        let occupied = std::fs::read_dir(&data).map_err(made)?.next().is_some();
        if occupied {
            return Err(format!(
                "{} has data of an earlier test: delete it, or give another --directory",
                data.display()
            ));
        }
        let (mut fleet, fleet_address) = start_fleet(load, &place.join("fleet.log"))?;
        fleet.ready(&fleet_address, "/status").await?;
        let config = place.join("prometheus.yml");
        let text = ask::text(&fleet_address, "/prometheus.yml").await?;
        std::fs::write(&config, text).map_err(made)?;
        let port = free_port()?;
        let given = Given { config: &config, data: &data, port, sink };
        let mut arguments = contender.kind.arguments(&given);
        arguments.extend(contender.flags.iter().cloned());
        let log = place.join("server.log");
        let mut server = Started::start(&contender.name, &contender.program, &arguments, &log)?;
        let address = format!("127.0.0.1:{port}");
        server.ready(&address, contender.kind.ready()).await?;
        Ok(Lane {
            contender: contender.clone(),
            load: load.clone(),
            fleet_process: Process::new(fleet.id()),
            fleet,
            fleet_address,
            process: Process::new(server.id()),
            server,
            address,
            arguments,
            data,
            log,
            begin: None,
            last: None,
            course: Vec::new(),
            ended: 0.0,
            journal: (0, 0),
        })
    }

    /// Fails when one of the two has ended.
    pub(super) fn check(&mut self) -> Result<(), String> {
        self.fleet.check()?;
        self.server.check()
    }

    /// Begins the measured time.
    ///
    /// # Errors
    /// A process is gone, or doesn't answer.
    pub(super) async fn begin(&mut self) -> Result<(), String> {
        let exposition = ask::text(&self.address, "/metrics").await?;
        let kind = self.contender.kind;
        let served = self.served().await?;
        let look = self.look()?;
        self.journal = (0, self.journal_bytes());
        self.begin = Some(Begin {
            at: now(),
            look,
            fleet: self.fleet_look()?,
            served: served.totals,
            second: served.now(),
            created: contender::value(&exposition, CREATED),
            allocated: contender::value(&exposition, kind.allocated()),
            ingested: contender::value(&exposition, kind.ingested()),
            bytes: directory_bytes(&self.data).values().sum(),
        });
        self.last = Some(look);
        Ok(())
    }

    async fn served(&self) -> Result<Served, String> {
        Served::read(&ask::text(&self.fleet_address, "/status?last=86400").await?)
    }

    fn fleet_look(&mut self) -> Result<Look, String> {
        self.fleet_process.look().map_err(|error| format!("the fleet: {error}"))
    }

    /// Bytes of the journal, of a server that has one of our kind.
    fn journal_bytes(&self) -> u64 {
        directory_bytes(&self.data.join("journal")).values().sum()
    }

    fn look(&mut self) -> Result<Look, String> {
        self.server.check()?;
        self.process.look().map_err(|error| format!("{}: {error}", self.contender.name))
    }

    /// Looks once more; `elapsed` seconds after the last time.
    ///
    /// # Errors
    /// A process is gone.
    pub(super) fn tick(&mut self, elapsed: f64) -> Result<(), String> {
        self.fleet.check()?;
        // Threads that end take their counts along.
        self.fleet_look()?;
        let look = self.look()?;
        let journal = self.journal_bytes();
        // It shrinks when what stands in it is in a chunk.
        self.journal = (self.journal.0 + journal.saturating_sub(self.journal.1), journal);
        if let (Some(begin), Some(last)) = (&self.begin, &self.last) {
            self.course.push(Moment {
                seconds: now() - begin.at,
                samples: 0,
                cores: (look.cpu_ns - last.cpu_ns) as f64 / 1e9 / elapsed,
                rss_bytes: look.rss,
                written_bytes: look.written.saturating_sub(begin.look.written),
            });
            self.last = Some(look);
        }
        Ok(())
    }

    /// Ends the measured time and works out what was found.
    ///
    /// # Errors
    /// A process is gone, or doesn't answer what it has to.
    pub(super) async fn end(&mut self) -> Result<Outcome, String> {
        let end = now();
        let look = self.look()?;
        let fleet = self.fleet_look()?;
        let served = self.served().await?;
        let exposition = ask::text(&self.address, "/metrics").await?;
        let begin = self.begin.take().ok_or("internal: ended before it began")?;
        let kind = self.contender.kind;
        let seconds = end - begin.at;
        let of_fleet =
            |of: fn(&Totals) -> u64| of(&served.totals).saturating_sub(of(&begin.served));
        let value = |metric| contender::value(&exposition, metric);
        let samples = of_fleet(|totals| totals.samples);
        let cpu = (look.cpu_ns - begin.look.cpu_ns) as f64 / 1e9;
        let fleet_cpu = (fleet.cpu_ns - begin.fleet.cpu_ns) as f64 / 1e9;
        let each = served.samples(begin.second, served.now());
        for (at, moment) in self.course.iter_mut().enumerate() {
            moment.samples = each.get(at).copied().unwrap_or(0);
        }
        let rounds = seconds / self.load.interval.as_secs_f64();
        let never = (served.never_asked() as f64 * rounds).round() as u64;
        let outcome = Outcome {
            server: self.contender.name.clone(),
            version: self.contender.version.clone(),
            command: self.command(),
            samples,
            samples_per_second: samples as f64 / seconds,
            // The first second had begun before.
            cv: variation(each.get(1..).unwrap_or_default()),
            samples_ingested: difference(value(kind.ingested()), begin.ingested),
            series: value(kind.series()),
            series_created: difference(value(CREATED), begin.created),
            scrapes: of_fleet(|totals| totals.scrapes),
            scrapes_expected: (served.healthy() as f64 * rounds).round() as u64,
            scrapes_missed: of_fleet(|totals| totals.missed) + never,
            body_bytes: of_fleet(|totals| totals.bytes),
            cpu: Cpu {
                seconds: cpu,
                system_share: look.system_share(&begin.look),
                cores: cpu / seconds,
                seconds_per_million_samples: cpu / samples.max(1) as f64 * 1e6,
            },
            memory: self.memory(&look, &exposition),
            allocated: Allocated::new(
                difference(value(kind.allocated()), begin.allocated),
                samples,
            ),
            disk: self.disk(&begin, &look, samples),
            switches: Switches {
                voluntary_per_second: look.voluntary.saturating_sub(begin.look.voluntary) as f64
                    / seconds,
                involuntary_per_second: look.involuntary.saturating_sub(begin.look.involuntary)
                    as f64
                    / seconds,
            },
            threads: look.threads,
            descriptors: look.descriptors,
            fleet: FleetCost {
                cpu_seconds: fleet_cpu,
                share_of_server: fleet_cpu / cpu.max(1e-9),
                rss_bytes: fleet.rss,
            },
            course: std::mem::take(&mut self.course),
            ..Outcome::default()
        };
        self.ended = end;
        Ok(outcome)
    }

    /// Healthy targets that the server held to be down when the measured time ended; none where it answers no
    /// queries.
    ///
    /// # Errors
    /// No answer.
    pub(super) async fn down(&self) -> Result<Option<u64>, String> {
        if !self.contender.kind.has_queries() {
            return Ok(None);
        }
        let query = "count(up{behaviour=\"\"} == 0)";
        let down = ask::number(&self.address, query, self.ended).await?;
        Ok(Some(down.unwrap_or(0.0) as u64))
    }

    fn memory(&self, look: &Look, exposition: &str) -> Memory {
        let kind = self.contender.kind;
        let value = |metric| contender::value(exposition, metric);
        let (in_use, freed) = kind.heap();
        let freed = freed.and_then(value).unwrap_or(0.0);
        let mean = |moments: &[Moment]| match moments.len() {
            0 => look.rss as f64,
            count => moments.iter().map(|one| one.rss_bytes as f64).sum::<f64>() / count as f64,
        };
        let tail = mean(&self.course[self.course.len() - self.course.len().div_ceil(10)..]);
        let meant = (self.load.targets * self.load.series) as f64;
        Memory {
            rss_bytes: look.rss,
            rss_mean_bytes: tail,
            rss_average_bytes: mean(&self.course),
            rss_peak_bytes: look.rss_peak,
            pss_bytes: self.process.proportional(),
            heap_bytes: value(in_use).map(|bytes| bytes - freed),
            rss_bytes_per_series: tail / value(kind.series()).unwrap_or(meant).max(1.0),
        }
    }

    fn disk(&self, begin: &Begin, look: &Look, samples: u64) -> Disk {
        let written =
            (!in_memory(&self.data)).then(|| look.written.saturating_sub(begin.look.written));
        let by_name = directory_bytes(&self.data);
        let bytes: u64 = by_name.values().sum();
        let grown = bytes as i64 - begin.bytes as i64;
        let per_sample = |bytes: f64| bytes / samples.max(1) as f64;
        let is_ours = self.contender.kind == Kind::Unladen;
        Disk {
            written_bytes: written,
            written_bytes_per_sample: written.map(|bytes| per_sample(bytes as f64)),
            bytes,
            grown_bytes: grown,
            grown_bytes_per_sample: per_sample(grown as f64),
            journal_bytes_per_sample: is_ours.then(|| per_sample(self.journal.0 as f64)),
            blocks: Blocks::read(&self.data),
            by_name,
        }
    }

    /// Processor time for each sample that a query reads: asks it `times` over, and takes off what scrapes take
    /// meanwhile.
    ///
    /// # Errors
    /// A query that fails.
    pub(super) async fn query_cost(
        &mut self,
        query: &str,
        times: usize,
        cores: f64,
    ) -> Result<f64, String> {
        let read = ("prometheus_engine_query_samples_read_total", "");
        let before = contender::value(&ask::text(&self.address, "/metrics").await?, read);
        let (look, begun) = (self.look()?, now());
        for _ in 0..times {
            ask::number(&self.address, query, now()).await?;
        }
        let (after, elapsed) = (self.look()?, now() - begun);
        let samples = contender::value(&ask::text(&self.address, "/metrics").await?, read);
        let samples = difference(samples, before).filter(|samples| *samples > 0.0);
        let cpu = (after.cpu_ns - look.cpu_ns) as f64 / 1e9 - cores * elapsed;
        Ok(samples.map_or(0.0, |samples| (cpu / samples).max(0.0)))
    }

    fn command(&self) -> String {
        let mut line = self.contender.program.display().to_string();
        for argument in &self.arguments {
            line.push(' ');
            line.push_str(argument);
        }
        line
    }

    /// Kills the server, starts it again on its data, and compares what queries show.
    ///
    /// # Errors
    /// It doesn't come back.
    pub(super) async fn restart(&mut self) -> Result<Restart, String> {
        let kind = self.contender.kind;
        let moment = now();
        let names = match kind.has_queries() {
            true => ask::names(&self.address).await?,
            false => Vec::new(),
        };
        let before = self.count(&names, moment).await?;
        let rss = self.look()?.rss;
        self.server.kill();
        let mut server = Started::start(
            &self.contender.name,
            &self.contender.program,
            &self.arguments,
            &self.log,
        )?;
        let mut process = Process::new(server.id());
        let took = server.ready(&self.address, kind.ready()).await?;
        let peak = process.look().map_or(0, |look| look.rss_peak);
        (self.server, self.process) = (server, process);
        let after = self.count(&names, moment).await?;
        let asks = kind.has_queries();
        Ok(Restart {
            seconds: took.as_secs_f64(),
            samples_before: asks.then(|| before.values().sum()),
            samples_after: asks.then(|| after.values().sum()),
            // More than before may be there: what was on its way. Less of one name is lost all the same.
            samples_lost: asks.then(|| {
                let of = |name: &String| after.get(name).copied().unwrap_or(0.0);
                before.iter().map(|(name, count)| (count - of(name)).max(0.0)).sum()
            }),
            rss_before_bytes: rss,
            rss_peak_bytes: peak,
            peak_ratio: peak as f64 / rss.max(1) as f64,
        })
    }

    /// Samples of the day before `moment`, by name: the names that differ may have the same labels, which no
    /// query takes in one.
    async fn count(&self, names: &[String], moment: f64) -> Result<BTreeMap<String, f64>, String> {
        let mut counts = BTreeMap::new();
        for name in names {
            let quoted = serde_json::Value::from(name.as_str());
            let query = format!("sum(count_over_time({{__name__={quoted}}}[1d]))");
            let count = ask::number(&self.address, &query, moment).await?;
            counts.insert(name.clone(), count.unwrap_or(0.0));
        }
        Ok(counts)
    }
}

fn difference(end: Option<f64>, begin: Option<f64>) -> Option<f64> {
    Some(end? - begin.unwrap_or(0.0))
}

/// Seconds since the epoch.
pub(super) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Starts `unladen fleet` on a free port.
fn start_fleet(load: &Load, log: &Path) -> Result<(Started, String), String> {
    let program = std::env::current_exe()
        .map_err(|error| format!("cannot tell where this program is: {error}"))?;
    let port = free_port()?;
    let mut arguments = vec![
        "fleet".to_owned(),
        format!("--listen=0.0.0.0:{port}"),
        format!("--targets={}", load.targets),
        format!("--series={}", load.series),
        format!("--interval={}", crate::duration::format(load.interval)),
    ];
    arguments.extend(load.fleet.iter().cloned());
    let fleet = Started::start("the fleet", &program, &arguments, log)?;
    Ok((fleet, format!("127.0.0.1:{port}")))
}
