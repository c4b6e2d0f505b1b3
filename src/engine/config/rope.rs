//! Rotary position embedding as a model's configuration describes it: wavelengths, and how they are stretched.
//!
//! Main type: [`RopeSettings`]. Plain and YaRN (B. Peng et al., "YaRN", arXiv:2309.00071), as transformers 5 computes them;
//! any other kind is refused. Refuses to know: positions, heads.

use serde::Deserialize;
use std::f64::consts::PI;

/// Angles of a head's pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RopeSettings {
    /// The base of the wavelengths.
    pub theta: f64,
    pub yarn: Option<Yarn>,
}

/// A context that is stretched: short wavelengths stay, long ones grow by `factor`, those between in part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yarn {
    pub factor: f64,
    /// Positions that the model was trained for.
    pub original: usize,
    /// Turns within `original` above which a wavelength stays, and below which it grows.
    pub beta_fast: f64,
    pub beta_slow: f64,
    /// Ends of the ramp are rounded outwards to whole pairs.
    pub truncate: bool,
    /// Queries and keys are multiplied by it.
    pub attention: f64,
}

/// `rope_parameters` or `rope_scaling` of a config.json.
#[derive(Clone, Deserialize)]
pub struct RawRope {
    pub rope_theta: Option<f64>,
    pub partial_rotary_factor: Option<f64>,
    rope_type: Option<String>,
    /// The older name of `rope_type`; some files have both.
    #[serde(rename = "type")]
    kind: Option<String>,
    factor: Option<f64>,
    original_max_position_embeddings: Option<usize>,
    beta_fast: Option<f64>,
    beta_slow: Option<f64>,
    attention_factor: Option<f64>,
    mscale: Option<f64>,
    mscale_all_dim: Option<f64>,
    truncate: Option<bool>,
}

impl RopeSettings {
    pub fn plain(theta: f64) -> Self {
        Self { theta, yarn: None }
    }

    /// Frequency i of `head_dim / 2`: plain, 1 / theta^(2i / head_dim); by YaRN a mean of that and of its `factor`th part.
    /// Exponents and powers are rounded to f32 on the way, as the reference does: at position 1000 the last bit of a
    /// frequency is seen.
    pub fn frequencies(&self, head_dim: usize) -> Vec<f32> {
        let pairs = head_dim / 2;
        let wavelength = |pair: usize| {
            let exponent = (2 * pair) as f32 / head_dim as f32;
            self.theta.powf(f64::from(exponent)) as f32
        };
        let Some(yarn) = &self.yarn else {
            return (0..pairs).map(|pair| 1.0 / wavelength(pair)).collect();
        };
        let (low, high) = yarn.ramp(self.theta, head_dim);
        let frequency = |pair: usize| {
            let (kept, grown) = (
                1.0 / wavelength(pair),
                1.0 / (yarn.factor as f32 * wavelength(pair)),
            );
            let share = ((pair as f32 - low as f32) / (high as f32 - low as f32)).clamp(0.0, 1.0);
            let keep = 1.0 - share;
            grown * (1.0 - keep) + kept * keep
        };
        (0..pairs).map(frequency).collect()
    }

    /// YaRN's factor of queries and keys, where it is no part of [`RopeSettings::score_scale`]: only what is turned has it.
    pub fn turned_scale(&self, head_dim: usize, rotary_dim: usize) -> f32 {
        match self.yarn {
            Some(yarn) if rotary_dim < head_dim => yarn.attention as f32,
            _ => 1.0,
        }
    }

    /// Factor of attention scores: 1 / √head_dim, times YaRN's factor for the query and again for the key, where all of a
    /// head is turned.
    pub fn score_scale(&self, head_dim: usize, rotary_dim: usize) -> f32 {
        if rotary_dim < head_dim {
            return 1.0 / (head_dim as f32).sqrt();
        }
        let factor = self.yarn.map_or(1.0, |yarn| yarn.attention);
        let plain = 1.0 / (head_dim as f32).sqrt();
        match self.yarn {
            None => plain,
            Some(_) => (f64::from(plain) * factor * factor) as f32,
        }
    }

    /// Positions that the stretched model reaches, where it is stretched.
    pub fn reach(&self) -> Option<usize> {
        self.yarn
            .map(|yarn| (yarn.factor * yarn.original as f64) as usize)
    }
}

impl Yarn {
    /// Pairs between which the wavelengths' growth rises from none to all.
    fn ramp(&self, theta: f64, head_dim: usize) -> (f64, f64) {
        let pair_of = |turns: f64| {
            let turn = self.original as f64 / (turns * 2.0 * PI);
            head_dim as f64 * turn.ln() / (2.0 * theta.ln())
        };
        let (mut low, mut high) = (pair_of(self.beta_fast), pair_of(self.beta_slow));
        if self.truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        let (low, mut high) = (low.max(0.0), high.min((head_dim - 1) as f64));
        if high <= low {
            high = low + 0.001;
        }
        (low, high)
    }
}

/// What the configuration's two places say; `theta` and `positions` are those of the whole file.
///
/// # Errors
/// Another kind, and numbers that cannot be.
pub fn read(
    raw: &[&Option<RawRope>],
    theta: f64,
    positions: usize,
) -> Result<RopeSettings, String> {
    let mut kinds = Vec::new();
    for rope in raw.iter().filter_map(|rope| rope.as_ref()) {
        kinds.extend([&rope.rope_type, &rope.kind].into_iter().flatten());
    }
    if let Some(other) = kinds
        .iter()
        .find(|kind| !["default", "yarn"].contains(&kind.as_str()))
    {
        return Err(format!("rope type `{other}`"));
    }
    let Some(first) = kinds.first() else {
        return Ok(RopeSettings::plain(theta));
    };
    if kinds.iter().any(|kind| kind != first) {
        return Err("both the rope types `default` and `yarn`".into());
    }
    let named = raw.iter().filter_map(|rope| rope.as_ref());
    let mut named = named.filter(|rope| rope.rope_type.is_some() || rope.kind.is_some());
    match named.next() {
        Some(rope) if *first == "yarn" => Ok(RopeSettings {
            theta,
            yarn: Some(yarn(rope, positions)?),
        }),
        _ => Ok(RopeSettings::plain(theta)),
    }
}

fn yarn(rope: &RawRope, positions: usize) -> Result<Yarn, String> {
    let original = rope.original_max_position_embeddings.unwrap_or(positions);
    let factor = rope.factor.ok_or("the rope type `yarn` without `factor`")?;
    let scale = |mscale: f64| match factor > 1.0 {
        true => 0.1 * mscale * factor.ln() + 1.0,
        false => 1.0,
    };
    let of_scales = match (rope.mscale, rope.mscale_all_dim) {
        (Some(one), Some(all)) if one != 0.0 && all != 0.0 => scale(one) / scale(all),
        _ => scale(1.0),
    };
    let yarn = Yarn {
        factor,
        original,
        beta_fast: rope.beta_fast.unwrap_or(32.0),
        beta_slow: rope.beta_slow.unwrap_or(1.0),
        truncate: rope.truncate.unwrap_or(true),
        attention: rope.attention_factor.unwrap_or(of_scales),
    };
    let is_sound = (1.0..=1e4).contains(&factor)
        && (1..=1 << 30).contains(&original)
        && yarn.beta_slow > 0.0
        && yarn.beta_fast >= yarn.beta_slow
        && yarn.beta_fast.is_finite()
        && (1e-3..=1e3).contains(&yarn.attention);
    match is_sound {
        true => Ok(yarn),
        false => Err(format!("YaRN with these numbers: {yarn:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{RawRope, RopeSettings, read};
    use serde_json::{Value, json};

    fn settings(rope: Value) -> Result<RopeSettings, String> {
        let rope: RawRope = serde_json::from_value(rope).unwrap();
        read(&[&None, &Some(rope)], 1e6, 40_960)
    }

    /// The worked case: Qwen3's own setting for 131,072 positions, head_dim 128, theta 10⁶. Pair i turns
    /// 32768 / (2π · 10^(6i / 64)) times within the trained context, so that 32 turns are at i = 23.6 and one at 39.7:
    /// the ramp goes from 23 to 40, and pair 31 is 8 / 17 on its way.
    #[test]
    fn yarn_keeps_short_wavelengths_and_stretches_long_ones() {
        let yarn = settings(json!({
            "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768,
        }));
        let yarn = yarn.unwrap();
        let plain = RopeSettings::plain(1e6).frequencies(128);
        let stretched = yarn.frequencies(128);
        assert_eq!(stretched[..24], plain[..24]);
        for pair in 40..64 {
            assert!(
                (stretched[pair] * 4.0 / plain[pair] - 1.0).abs() < 1e-6,
                "{pair}"
            );
        }
        let share = 8.0 / 17.0;
        let expect = plain[31] * (share / 4.0 + (1.0 - share));
        assert!(
            (stretched[31] / expect - 1.0).abs() < 1e-6,
            "{} {expect}",
            stretched[31]
        );
        // 0.1 · ln 4 + 1 = 1.138629, for the query and for the key.
        let scale = yarn.score_scale(128, 128) * 128_f32.sqrt();
        assert!((scale - 1.138_629_4 * 1.138_629_4).abs() < 1e-6, "{scale}");
        assert_eq!(
            (yarn.reach(), RopeSettings::plain(1e6).reach()),
            (Some(131_072), None)
        );
    }

    #[test]
    fn numbers_of_the_file_go_before_those_that_are_usual() {
        let rope = json!({"type": "yarn", "factor": 8, "attention_factor": 1.5, "truncate": false, "beta_fast": 16});
        let yarn = settings(rope).unwrap().yarn.unwrap();
        assert_eq!(
            (yarn.original, yarn.attention, yarn.truncate, yarn.beta_fast),
            (40_960, 1.5, false, 16.0)
        );
        let both = json!({"rope_type": "yarn", "factor": 8, "mscale": 1.0, "mscale_all_dim": 0.5});
        let yarn = settings(both).unwrap().yarn.unwrap();
        assert!(
            (yarn.attention - 1.207_944 / 1.103_972).abs() < 1e-6,
            "{}",
            yarn.attention
        );
    }

    #[test]
    fn what_is_not_computed_is_refused() {
        for (rope, expect) in [
            (json!({"type": "linear"}), "rope type `linear`"),
            (json!({"rope_type": "default", "type": "yarn"}), "both"),
            (json!({"rope_type": "yarn"}), "without `factor`"),
            (json!({"rope_type": "yarn", "factor": 0.5}), "these numbers"),
            (
                json!({"rope_type": "yarn", "factor": 4, "beta_slow": 0}),
                "these numbers",
            ),
            (
                json!({"rope_type": "yarn", "factor": 4, "attention_factor": 0}),
                "these numbers",
            ),
        ] {
            let refusal = settings(rope).unwrap_err();
            assert!(refusal.contains(expect), "{refusal}");
        }
    }
}
