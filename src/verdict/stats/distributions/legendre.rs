//! Gauss and Legendre's quadrature.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::f64::consts::PI;
use std::rc::Rc;

/// Newton's steps from Chebyshev's nodes: the fourth changes nothing any more.
const STEPS: usize = 6;

/// Nodes in (−1, 1) and their weights: the sum of weight × f(node) is the integral of f, exact for polynomials
/// of degree below 2n (Davis and Rabinowitz 1984, section 2.7). None for n = 0; the middle with weight 2 for 1.
pub fn nodes(n: usize) -> Vec<(f64, f64)> {
    let node = |i: usize| {
        let mut x = (PI * (i as f64 + 0.75) / (n as f64 + 0.5)).cos();
        for _ in 0..STEPS {
            let (value, slope) = polynomial(n, x);
            x -= value / slope;
        }
        let (_, slope) = polynomial(n, x);
        (x, 2.0 / ((1.0 - x * x) * slope * slope))
    };
    (0..n).map(node).collect()
}

/// Nodes and their weights.
type Nodes = Rc<[(f64, f64)]>;

/// Those of [`nodes`], made once a thread for each number: sequential levels ask for few numbers, very often.
pub fn known_nodes(n: usize) -> Nodes {
    thread_local! {
        static KNOWN: RefCell<BTreeMap<usize, Nodes>> = const { RefCell::new(BTreeMap::new()) };
    }
    KNOWN.with_borrow_mut(|known| {
        let nodes = known.entry(n).or_insert_with(|| nodes(n).into());
        Rc::clone(nodes)
    })
}

/// Legendre's polynomial of degree n ≥ 1 at x, and its derivative.
fn polynomial(n: usize, x: f64) -> (f64, f64) {
    let (mut before, mut value) = (1.0, x);
    for k in 2..=n {
        let k = k as f64;
        (before, value) = (
            value,
            ((2.0 * k - 1.0) * x * value - (k - 1.0) * before) / k,
        );
    }
    (value, n as f64 * (x * value - before) / (x * x - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polynomials_are_integrated_exactly() {
        assert!(nodes(0).is_empty());
        let check = |n: usize, f: &dyn Fn(f64) -> f64, expect: f64| {
            let got: f64 = nodes(n).iter().map(|(x, weight)| weight * f(*x)).sum();
            assert!((got - expect).abs() < 1e-12, "{n}: {got} for {expect}");
        };
        check(1, &|_| 1.0, 2.0);
        check(2, &|x| x.powi(3) + x * x, 2.0 / 3.0);
        check(5, &|x| x.powi(8), 2.0 / 9.0);
        check(48, &f64::exp, 1.0_f64.exp() - (-1.0_f64).exp());
        check(256, &|x| x.powi(40), 2.0 / 41.0);
    }
}
