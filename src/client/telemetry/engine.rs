//! The engine's own gauges and counters, by the names that the configuration gives.

use super::exposition;
use super::missing::Missing;
use verdict::plan::EngineMetrics;
use verdict::record::EngineReading;

/// Values of the exposition text; a name that it lacks is noted.
pub fn read(text: &str, names: &EngineMetrics, missing: &mut Missing) -> EngineReading {
    let mut value = |name: &Option<String>| {
        let name = name.as_ref()?;
        let found = exposition::sum(text, name);
        if found.is_none() {
            missing.note(&format!("metric {name}"), || {
                format!("the engine's metrics have no value of `{name}` (engine.metrics)")
            });
        }
        found
    };
    EngineReading {
        kv_bytes: value(&names.kv_bytes),
        kv_usage: value(&names.kv_usage),
        running: value(&names.running),
        waiting: value(&names.waiting),
        preemptions: value(&names.preemptions),
        prefix_hits: value(&names.prefix_hits),
        prefix_queries: value(&names.prefix_queries),
    }
}
