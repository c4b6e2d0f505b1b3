//! On which scale values are compared.

/// A scale and its way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// y = ln(value): differences are relative changes.
    Log,
    /// y = ln(1 + value): the value is a relative change already, 0 where nothing changed.
    LogOfChange,
    /// y = value, in its own unit: it touches nought somewhere.
    Plain,
}

impl Scale {
    /// NaN or infinite for a value that the scale cannot hold.
    pub fn forward(self, value: f64) -> f64 {
        match self {
            Self::Log => value.ln(),
            Self::LogOfChange => value.ln_1p(),
            Self::Plain => value,
        }
    }

    /// A value, not a difference, in its own unit.
    pub fn back(self, y: f64) -> f64 {
        match self {
            Self::Log => y.exp(),
            Self::LogOfChange => y.exp_m1(),
            Self::Plain => y,
        }
    }

    /// Whether a difference on this scale is a relative change, exp(y) − 1.
    pub fn is_relative(self) -> bool {
        self != Self::Plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for (scale, value) in [
            (Scale::Log, 20.0),
            (Scale::LogOfChange, 1.9),
            (Scale::Plain, -0.5),
        ] {
            assert!((scale.back(scale.forward(value)) - value).abs() < 1e-12);
        }
        assert!(Scale::Log.forward(-1.0).is_nan());
    }
}
