//! A straight line that a few wild points do not move.

/// The line through the points with the least sum of absolute residuals: (intercept, slope), in units of
/// y and of y per unit of x. Bloomfield and Steiger, "Least Absolute Deviations" (1983): such a line can be
/// found that passes through two of the points, so all pairs are tried; meant for tens of points.
///
/// `None` for fewer than two different x, for slices of unequal length and where a value is not finite.
/// A constant y has slope 0. Where several lines are equally good, the first in the order of pairs.
pub fn least_absolute_line(x: &[f64], y: &[f64]) -> Option<(f64, f64)> {
    if x.len() != y.len() || x.iter().chain(y).any(|v| !v.is_finite()) {
        return None;
    }
    let points = || x.iter().zip(y);
    let mut best: Option<(f64, (f64, f64))> = None;
    for (i, (xi, yi)) in points().enumerate() {
        for (xj, yj) in points().skip(i + 1) {
            let run = xj - xi;
            if run.abs() <= 0.0 {
                continue;
            }
            let slope = (yj - yi) / run;
            let intercept = yi - slope * xi;
            let loss: f64 = points()
                .map(|(x, y)| (y - intercept - slope * x).abs())
                .sum();
            if best.is_none_or(|(least, _)| loss < least) {
                best = Some((loss, (intercept, slope)));
            }
        }
    }
    best.map(|(_, line)| line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn goes_through_what_lies_on_a_line() {
        let x = [32.0, 512.0, 1024.0, 4096.0];
        let y = x.map(|x| 8.0 + 0.002 * x);
        let (base, slope) = least_absolute_line(&x, &y).unwrap();
        assert!((base - 8.0).abs() < 1e-9 && (slope - 0.002).abs() < 1e-12);
        // One wild point of five does not move it.
        let x = [1.0, 2.0, 3.0, 4.0, 5.0];
        let y = [2.0, 3.0, 90.0, 5.0, 6.0];
        let (base, slope) = least_absolute_line(&x, &y).unwrap();
        assert!((base - 1.0).abs() < 1e-9 && (slope - 1.0).abs() < 1e-9);
    }

    #[test]
    fn says_when_there_is_no_line() {
        assert_eq!(least_absolute_line(&[], &[]), None);
        assert_eq!(least_absolute_line(&[1.0], &[1.0]), None);
        assert_eq!(least_absolute_line(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(least_absolute_line(&[1.0, 2.0], &[1.0, f64::NAN]), None);
        assert_eq!(least_absolute_line(&[1.0, 2.0], &[1.0]), None);
        assert_eq!(
            least_absolute_line(&[0.0, 1.0, 2.0], &[3.0; 3]),
            Some((3.0, 0.0))
        );
    }

    proptest! {
        /// No other line, drawn at random near it, is better.
        #[test]
        fn none_is_better(
            points in prop::collection::vec((0.0..100.0_f64, -50.0..50.0_f64), 2..12),
            other in (-20.0..20.0_f64, -2.0..2.0_f64),
        ) {
            let (x, y): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
            let loss = |(base, slope): (f64, f64)| -> f64 {
                x.iter().zip(&y).map(|(x, y)| (y - base - slope * x).abs()).sum()
            };
            if let Some(line) = least_absolute_line(&x, &y) {
                let near = (line.0 + other.0, line.1 + other.1);
                prop_assert!(loss(line) <= loss(near) + 1e-6 * (1.0 + loss(near)));
            }
        }
    }
}
