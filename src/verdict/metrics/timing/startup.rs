//! Numbers of one start: from the spawn to the port, the first token, the first real answer.

use super::request;
use crate::metrics::{LaunchMeasure, Place, Undefined, Why};
use crate::record::{Phase, Sample};

/// Process spawn to the port's first accepted connection.
pub fn port_open(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    since_spawn(at, at.launch.startup.port_open_ns, Why::NoPort)
}

/// Process spawn to the first generated token, of the probe that asks for one again and again.
pub fn ready(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    since_spawn(at, at.launch.startup.ready_ns, Why::NotReady)
}

/// Process spawn to the first token of the first real request.
pub fn first_token(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let first = first_request(at)?.stamps.events_ns.first().copied();
    since_spawn(at, first, Why::NoEvents)
}

/// Process spawn to the last token of the first real request.
pub fn first_response(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let last = first_request(at)?.stamps.events_ns.last().copied();
    since_spawn(at, last, Why::NoEvents)
}

/// One of the engine's own stages.
pub fn stage(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let wanted = at.part.stage.as_deref().unwrap_or_default();
    let stages = &at.launch.startup.stages;
    let stage = stages
        .iter()
        .find(|stage| stage.name == wanted)
        .ok_or_else(|| {
            let wanted = wanted.to_owned();
            let named = stages.iter().map(|stage| stage.name.clone()).collect();
            at.undefined(Why::NoStage { wanted, named }, None)
        })?;
    Ok(LaunchMeasure::single(stage.ms, 1))
}

fn first_request<'a>(at: &Place<'a>) -> Result<&'a Sample, Undefined> {
    let mut samples = at.sound().into_iter();
    samples
        .find(|s| s.phase == Phase::Measured)
        .ok_or_else(|| at.undefined(Why::NoSamples, None))
}

fn since_spawn(
    at: &Place<'_>,
    moment: Option<u64>,
    missing: Why,
) -> Result<LaunchMeasure, Undefined> {
    let moment = moment.ok_or_else(|| at.undefined(missing, None))?;
    let ms = request::ms_between(at.launch.startup.spawn_ns, moment);
    Ok(LaunchMeasure::single(ms, 1))
}

#[cfg(test)]
mod tests {
    use crate::metrics::testing::{check, launch, steady, streamed};
    use crate::metrics::{Why, measure};
    use crate::record::{Metric, Stage, Statistic};

    #[test]
    fn every_moment_counts_from_the_spawn() {
        let mut l = launch(0, vec![streamed("w", 0, 50.0, 10.0, 6)]);
        let value = |metric, l: &_| {
            let mut c = check(metric, Statistic::Single);
            c.part.stage = Some("weights".into());
            measure(&c, &steady("w"), l)
                .map(|m| m.value)
                .map_err(|e| e.why)
        };
        assert_eq!(value(Metric::Ready, &l), Err(Why::NotReady));
        assert_eq!(value(Metric::PortOpen, &l), Err(Why::NoPort));
        let missing = Err(Why::NoStage {
            wanted: "weights".into(),
            named: vec![],
        });
        assert_eq!(value(Metric::Stage, &l), missing);
        l.startup.spawn_ns = 1_000_000;
        l.startup.port_open_ns = Some(11_000_000);
        l.startup.ready_ns = Some(31_500_000);
        l.startup.stages = vec![Stage {
            name: "weights".into(),
            ms: 7.0,
        }];
        assert_eq!(value(Metric::PortOpen, &l), Ok(10.0));
        assert_eq!(value(Metric::Ready, &l), Ok(30.5));
        assert_eq!(value(Metric::FirstToken, &l), Ok(49.0));
        assert_eq!(value(Metric::FirstResponse, &l), Ok(99.0));
        assert_eq!(value(Metric::Stage, &l), Ok(7.0));
    }
}
