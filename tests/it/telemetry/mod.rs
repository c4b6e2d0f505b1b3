//! Telemetry against scripted exporters: what is read, what is left out, and what is said of it; and
//! launches that wait for the machine to cool.

mod cooldown;
mod server;

use client::telemetry::{Sources, Watch};
use client::{Endpoint, SessionClock};
use server::{Answer, Server};
use std::net::SocketAddr;
use std::time::Duration;
use verdict::plan::{self, EngineMetrics};
use verdict::record::{EngineReading, Telemetry};

const DCGM: &str = "DCGM_FI_DEV_SM_CLOCK{gpu=\"0\"} 1980\nDCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu=\"0\"} 32\n\
                    DCGM_FI_DEV_GPU_TEMP{gpu=\"1\"} 50\n";

const VLLM: &str = "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"1\"} 4\n\
                    vllm:prefix_cache_hits_total{engine=\"0\"} 128\n";

fn names() -> EngineMetrics {
    EngineMetrics {
        running: Some("vllm:num_requests_running".into()),
        prefix_hits: Some("vllm:prefix_cache_hits_total".into()),
        ..EngineMetrics::default()
    }
}

fn sources(engine: SocketAddr, gpu_exporter: String) -> Sources {
    Sources {
        plan: plan::Telemetry {
            every: Duration::from_millis(20),
            gpu_exporter: Some(gpu_exporter),
            others_cpu: None,
        },
        engine: names(),
        gauges: Vec::new(),
        counters: Vec::new(),
        endpoint: Endpoint::usual(engine, "m"),
        beside: None,
        pid: Some(std::process::id().cast_signed()),
    }
}

/// Reads until the server has answered so often.
fn read(sources: Sources, server: &Server, answers: usize) -> Telemetry {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let watch = Watch::start(sources, &SessionClock::start());
    server.await_requests(answers);
    runtime.block_on(watch.stop())
}

#[test]
fn every_source_is_read_at_each_moment() {
    let engine = Server::start(|path, _| {
        assert_eq!(path, "/metrics");
        Answer::Text(VLLM)
    });
    let exporter = Server::start(|path, _| {
        assert_eq!(path, "/gpu/metrics");
        Answer::Text(DCGM)
    });
    let spec = format!("{}/gpu/metrics", exporter.address);
    let telemetry = read(sources(engine.address, spec), &engine, 4);
    assert_eq!(telemetry.every_ms, 20);
    assert_eq!(telemetry.missing, [""; 0]);
    // The fourth request belongs to a reading that is taken to its end; a last one follows.
    assert!(telemetry.readings.len() >= 5, "{telemetry:?}");
    assert!(telemetry.readings.is_sorted_by_key(|reading| reading.at_ns));
    for reading in &telemetry.readings {
        let gpus: Vec<_> = reading
            .gpus
            .iter()
            .map(|gpu| {
                (
                    gpu.index,
                    gpu.sm_clock_mhz,
                    gpu.throttle_bits,
                    gpu.temperature_c,
                )
            })
            .collect();
        assert_eq!(
            gpus,
            [(0, Some(1980), Some(32), None), (1, None, None, Some(50))]
        );
        let engine = EngineReading {
            running: Some(7.0),
            prefix_hits: Some(128.0),
            ..EngineReading::default()
        };
        assert_eq!(reading.engine, engine);
        assert!(reading.rss_bytes.is_some_and(|bytes| bytes > 0));
        assert!(reading.engine_cpu_s.is_some() && reading.gate_cpu_s.is_some());
        assert!(reading.machine_cpu_s.is_some() && reading.steal_s.is_some());
    }
}

#[test]
fn a_source_that_fails_later_leaves_its_fields_out_and_one_sentence() {
    let engine = Server::start(|_, number| match number {
        0 | 1 => Answer::Text(VLLM),
        2 | 3 => Answer::Status(503),
        _ => Answer::Text("vllm:num_requests_running 5\n"),
    });
    let exporter = Server::start(|_, number| match number {
        0 => Answer::Text(DCGM),
        1 => Answer::Text("up 1\n"),
        _ => Answer::Status(500),
    });
    let spec = format!("{}/metrics", exporter.address);
    let telemetry = read(sources(engine.address, spec), &engine, 5);
    let running: Vec<_> = telemetry
        .readings
        .iter()
        .map(|r| r.engine.running)
        .collect();
    assert_eq!(running[..5], [Some(7.0), Some(7.0), None, None, Some(5.0)]);
    let gpus: Vec<_> = telemetry.readings.iter().map(|r| r.gpus.len()).collect();
    assert_eq!(gpus[..3], [2, 0, 0]);
    let said = telemetry.missing.join("\n");
    for (part, times) in [
        ("/metrics failed at", 1),
        ("status 503", 1),
        ("it names no GPU", 1),
        ("status 500", 0),
        ("no value of `vllm:prefix_cache_hits_total`", 1),
    ] {
        assert_eq!(said.matches(part).count(), times, "`{part}` in:\n{said}");
    }
}

/// As of an engine that answers between requests alone.
#[test]
fn late_values_of_the_engine_are_left_out() {
    let engine = Server::start(|_, number| {
        if number == 1 {
            std::thread::sleep(Duration::from_millis(600));
        }
        Answer::Text(VLLM)
    });
    let exporter = Server::start(|_, _| Answer::Text(DCGM));
    let spec = format!("{}/metrics", exporter.address);
    let telemetry = read(sources(engine.address, spec), &engine, 3);
    let running = telemetry.readings.iter().map(|r| r.engine.running);
    let running: Vec<_> = running.take(3).collect();
    assert_eq!(running, [Some(7.0), None, Some(7.0)]);
    let said = telemetry.missing.join("\n");
    assert!(said.contains("late values are left out"), "{said}");
}

#[test]
fn what_was_never_there_is_said() {
    let engine = Server::start(|_, _| Answer::Text(VLLM));
    for (spec, part) in [
        ("127.0.0.1:9400", "must be host:port/path"),
        ("no such host:1/metrics", "its host cannot be found"),
    ] {
        let mut sources = sources(engine.address, spec.into());
        sources.pid = Some(i32::MAX);
        let telemetry = read(sources, &engine, engine.requests() + 1);
        let said = telemetry.missing.join("\n");
        assert!(said.contains(part), "`{part}` is missing in:\n{said}");
        assert!(said.contains("process was gone"), "{said}");
        let reading = &telemetry.readings[0];
        assert_eq!((reading.rss_bytes, reading.engine_cpu_s), (None, None));
        assert!(reading.gpus.is_empty() && reading.gate_cpu_s.is_some());
    }
}

#[test]
fn a_machine_without_nvml_has_one_line_and_all_else() {
    let engine = Server::start(|_, _| Answer::Text(VLLM));
    let mut sources = sources(engine.address, String::new());
    sources.plan.gpu_exporter = None;
    let telemetry = read(sources, &engine, 2);
    let about_nvml = |sentence: &&String| sentence.contains("NVML");
    let said = telemetry.missing.iter().filter(about_nvml).count();
    let has_gpus = telemetry.readings.iter().any(|r| !r.gpus.is_empty());
    // Either the driver's library is there, or one sentence says that it is not.
    assert_eq!(said, usize::from(!has_gpus), "{telemetry:?}");
    assert!(
        telemetry
            .readings
            .iter()
            .all(|r| r.engine.running.is_some())
    );
}

#[test]
fn an_engine_without_configured_names_is_not_asked() {
    let engine = Server::start(|_, _| Answer::Text(VLLM));
    let exporter = Server::start(|_, _| Answer::Text(DCGM));
    let mut sources = sources(engine.address, format!("{}/m", exporter.address));
    sources.engine = EngineMetrics::default();
    let telemetry = read(sources, &exporter, 3);
    assert_eq!(engine.requests(), 0);
    assert_eq!(telemetry.missing, [""; 0]);
}
