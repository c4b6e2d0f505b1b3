//! The results as text of 80 columns, the bars above them, a mark where one is broken.
//!
//! Main functions: [`head`], [`cell`], [`tool`]. Refuses to know: how anything was measured.

use crate::Outcome;
use crate::cell::Cell;
use crate::errors::Errors;
use crate::floor::Floor;
use crate::tools::Run;

/// CPU s per 10⁶ tokens, up to 256 streams.
const CPU_BAR: f64 = 16.0;

/// The same as a multiple of a bare loop's in the same run, from 16 streams on.
const BARE_BAR: f64 = 2.0;

/// CPU s per 10⁶ tokens of a bare tokio loop at one stream, of which the bar leaves the client the rest.
const SLOW_HOST: f64 = 10.0;

/// Up to 256 streams, in µs; at a thousand and beside busy loops some are others, and some are none.
const BARS: Errors = Errors {
    ttft_mean: Some(50.0),
    ttft_p99: Some(250.0),
    tpot_mean: Some(1.0),
    tpot_p99: Some(2.0),
    itl_p99: Some(50.0),
};

fn bars(streams: u32, busy: usize) -> (Errors, Option<f64>) {
    if busy > 0 {
        let beside = Errors {
            ttft_mean: Some(100.0),
            tpot_p99: Some(5.0),
            ..Errors::default()
        };
        return (beside, None);
    }
    if streams <= 256 {
        return (BARS, Some(CPU_BAR));
    }
    let many = Errors {
        ttft_mean: None,
        ttft_p99: Some(1000.0),
        ..BARS
    };
    (many, None)
}

pub(crate) fn head() {
    println!("reported - true in µs; `!`: beyond its bar; x: times a bare epoll and recvmsg loop");
    let titles = [
        "TTFT", "TTFT", "TPOT", "TPOT", "ITL", "CPU s", "came as", "",
    ];
    row("streams", &titles.map(str::to_owned));
    let titles = [
        "mean",
        "p99",
        "mean",
        "p99",
        "p99",
        "/10⁶tok",
        "one",
        "reached",
    ];
    row("", &titles.map(str::to_owned));
    let bar = |bar: Option<f64>| bar.map_or(String::new(), |bar| format!("≤ {bar}"));
    let mut fields: Vec<String> = BARS.array().map(bar).to_vec();
    fields.push(bar(Some(CPU_BAR)));
    row("bars to 256", &fields);
}

/// Two lines: figure minus figure, and what 99 of 100 single values are off by at the most.
pub(crate) fn cell(streams: u32, busy: usize, cell: &Cell) {
    let (bars, cpu_bar) = bars(streams, busy);
    let mut fields = errors(&cell.seen.overall(), &bars);
    fields.push(marked(Some(cell.cpu_s), cpu_bar, 1));
    fields.push(format!("{:.2} %", cell.ambiguous * 100.0));
    fields.push(cell.reached.to_string());
    let name = match busy {
        0 => streams.to_string(),
        busy => format!("{streams}, {busy} busy"),
    };
    row(&name, &fields);
    let mut fields = errors(&cell.seen.single(), &bars);
    let bare_bar = Some(BARE_BAR).filter(|_| streams >= 16 && busy == 0);
    let ratio = marked(Some(cell.cpu_s / cell.bare_s), bare_bar, 2);
    fields.push(format!("x {ratio}"));
    row("  one by one", &fields);
    let [ttft, tpot] = cell.seen.reported.left_out();
    if ttft + tpot > 0.0 {
        let (ttft, tpot) = (ttft * 100.0, tpot * 100.0);
        println!("  left out: TTFT of {ttft:.2} % of the requests, TPOT of {tpot:.2} %");
    }
}

/// A tool's own figures, or why there are none.
pub(crate) fn tool(name: &str, streams: u32, run: &Outcome<Run>) {
    let name = format!("{name} {streams}");
    let run = match run {
        Ok(run) => run,
        Err(why) => return println!("{name:<16}  failed: {why}"),
    };
    let mut fields = errors(&run.errors, &Errors::default());
    fields.push(format!("{:.0}", run.cpu_s));
    fields.push(String::new());
    fields.push(run.reached.to_string());
    row(&name, &fields);
    println!("  its start: {:.1} CPU s, not in its row", run.start_cpu_s);
}

/// Tools that have no rows.
pub(crate) fn missing(names: &[&str]) {
    if !names.is_empty() {
        println!("not found, so not measured: {}", names.join(", "));
    }
}

pub(crate) fn floor(floor: &Floor) {
    let Floor {
        blocking,
        polled,
        task,
    } = floor;
    println!(
        "floor at one stream, CPU s/10⁶tok: recvmsg {blocking:.1}, after epoll_wait {polled:.1}, \
         in tokio {task:.1}"
    );
}

/// A host that wakes a bare loop so slowly says nothing of the client: its CPU time at one stream is void.
pub(crate) fn host(floors: &[Floor]) {
    let most = floors.iter().map(|floor| floor.task).fold(0.0, f64::max);
    if most > SLOW_HOST {
        println!(
            "void: CPU time at one stream, where a bare tokio loop takes {most:.1} (at most {SLOW_HOST})"
        );
    }
}

fn errors(errors: &Errors, bars: &Errors) -> Vec<String> {
    let pairs = errors.array().into_iter().zip(bars.array());
    pairs.map(|(value, bar)| marked(value, bar, 2)).collect()
}

fn marked(value: Option<f64>, bar: Option<f64>, digits: usize) -> String {
    let Some(value) = value else {
        return "-".into();
    };
    let broken = bar.is_some_and(|bar| value.abs() > bar);
    let mark = if broken { "!" } else { "" };
    let digits = if value.abs() < 1000.0 { digits } else { 0 };
    format!("{value:.digits$}{mark}")
}

fn row(name: &str, fields: &[String]) {
    let fields: String = fields.iter().map(|field| format!("{field:>8}")).collect();
    println!("{name:<16}{fields}");
}
