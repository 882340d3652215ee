//! The limit engine: what the machine can do when nothing but the necessary is done.
//!
//! `raw` copies records from a memory map into a reused buffer and writes them to a file in large pieces, `zstd` runs
//! libzstd alone, `cold` keeps many reads in flight. It is asked as every engine is (`worker.py`): a JSON request a
//! line on stdin, a JSON reply a line on stdout.

mod batch;
mod cold;
mod copy;
mod memory;
mod raw;
mod team;
mod truth;
mod zstd;

use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::path::Path;

use serde_json::{Value, json};

use crate::truth::Truth;

pub type Fallible<T> = Result<T, Box<dyn Error>>;

/// What can be asked of a limit. What one does not offer is an error.
pub trait Limit {
    fn write(&mut self) -> Fallible<Value> {
        Err("this limit writes nothing".into())
    }
    fn open(&mut self) -> Fallible<Value> {
        Ok(json!({ "seconds": 0.0 }))
    }
    fn check(&mut self, request: &Value) -> Fallible<Value>;
    fn measure(&mut self, request: &Value) -> Fallible<Value>;
    fn drop_cache(&mut self) -> Fallible<Value> {
        Err("this limit is not for cold reads".into())
    }
}

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, path, truth] = arguments.as_slice() else {
        return Err("usage: loaderx-bench-limit raw|zstd|cold PATH TRUTH".into());
    };
    let truth = Truth::open(Path::new(truth))?;
    let path = Path::new(path);
    let mut limit: Box<dyn Limit> = match kind.as_str() {
        "raw" => Box::new(raw::Raw::new(truth, path)),
        "zstd" => Box::new(zstd::Zstd::new(truth)),
        "cold" => Box::new(cold::Cold::new(truth, path)),
        _ => return Err(format!("no limit is called {kind}").into()),
    };
    for line in stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let reply = match answer(limit.as_mut(), &request) {
            Ok(done) => json!({ "done": done }),
            Err(error) => json!({ "error": error.to_string() }),
        };
        let mut out = stdout().lock();
        writeln!(out, "{reply}")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(limit: &mut dyn Limit, request: &Value) -> Fallible<Value> {
    match request["op"].as_str() {
        Some("identify") => Ok(json!(env!("CARGO_PKG_VERSION"))),
        Some("write") => limit.write(),
        Some("open") => limit.open(),
        Some("check") => limit.check(request),
        Some("measure") => limit.measure(request),
        Some("drop_cache") => limit.drop_cache(),
        Some("read_bytes") => read_bytes(),
        Some("close") => Ok(Value::Null),
        other => Err(format!("no such request: {other:?}").into()),
    }
}

/// What this process has had read from a disk until now.
fn read_bytes() -> Fallible<Value> {
    let counters = std::fs::read_to_string("/proc/self/io")?;
    let line = counters.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    Ok(json!(line.ok_or("/proc/self/io does not say what was read")?.parse::<u64>()?))
}
