//! Products: of few rows, alone and with SwiGLU, and the library's.

use engine::Element;
use engine::cuda::device::{Device, Memory, Product};
use engine::cuda::launch;

use crate::kernel_parity::lab::{Lab, close, rounding};
use crate::on_a_device;

/// f32 sums of products below 1: what was seen is below a fifth of it.
const SUM: f64 = 2e-5;

const SIZES: [(usize, usize); 6] = [
    (1, 8),
    (17, 128),
    (448, 136),
    (31, 2_056),
    (130, 384),
    (9, 4_104),
];

fn product(x: &[f64], weight: &[f64], cols: usize) -> Vec<f64> {
    let dot = |x: &[f64], w: &[f64]| x.iter().zip(w).map(|(a, b)| a * b).sum::<f64>();
    let rows = x.chunks(cols);
    rows.flat_map(|x| {
        weight
            .chunks(cols)
            .map(move |w| dot(x, w))
            .collect::<Vec<_>>()
    })
    .collect()
}

#[test]
fn gemv() {
    on_a_device!(check_gemv, Element::ALL);
}

fn check_gemv<D: Device>(lab: &mut Lab<D>) {
    for n in 1..=8 {
        for (rows, cols) in SIZES {
            let (weight, x) = (lab.elements(rows * cols, 1.0), lab.elements(n * cols, 1.0));
            let bias = lab.floats(rows, 1.0);
            let want = product(&x.numbers, &weight.numbers, cols);
            for biased in [false, true] {
                let out = lab.poisoned_floats(n * rows);
                let (device, view) = (&mut lab.device, biased.then(|| bias.view()));
                let (weight, x) = (weight.view(), x.view());
                let to = out.view();
                launch::gemv(device, weight, x, view, to, n, rows, cols).unwrap();
                let more = |at: usize| if biased { bias.numbers[at % rows] } else { 0.0 };
                let want: Vec<f64> = want
                    .iter()
                    .enumerate()
                    .map(|(at, w)| w + more(at))
                    .collect();
                let absolute = SUM * (cols as f64).sqrt();
                close("gemv", &lab.read_floats(&out), &want, 1e-6, absolute);
            }
        }
    }
}

#[test]
fn gemv_swiglu() {
    on_a_device!(check_gemv_swiglu, Element::ALL);
}

fn check_gemv_swiglu<D: Device>(lab: &mut Lab<D>) {
    for n in 1..=8 {
        for (m, cols) in SIZES {
            let (weight, x) = (lab.elements(2 * m * cols, 0.3), lab.elements(n * cols, 1.0));
            let out = lab.poisoned_elements(n * m);
            let to = out.view();
            launch::gemv_swiglu(&mut lab.device, weight.view(), x.view(), to, n, m, cols).unwrap();
            let (gates, ups) = weight.numbers.split_at(m * cols);
            let gates = product(&x.numbers, gates, cols);
            let ups = product(&x.numbers, ups, cols);
            let both = gates.iter().zip(&ups);
            let want: Vec<f64> = both.map(|(g, u)| g / (1.0 + (-g).exp()) * u).collect();
            let scale = ups
                .iter()
                .chain(&gates)
                .fold(1.0f64, |most, x| most.max(x.abs()));
            let absolute = SUM * scale * (cols as f64).sqrt();
            let relative = rounding(lab.element()) + 2e-6;
            close(
                "gemv_swiglu",
                &lab.read_elements(&out),
                &want,
                relative,
                absolute,
            );
        }
    }
}

/// Larger products are the library's: any of its ways may be the fastest, so all must be right.
#[test]
fn library_products() {
    on_a_device!(check_library_products, Element::ALL);
}

fn check_library_products<D: Device>(lab: &mut Lab<D>) {
    for n in [9, 33] {
        for (rows, cols) in SIZES {
            let (weight, x) = (lab.elements(rows * cols, 1.0), lab.elements(n * cols, 1.0));
            let want = product(&x.numbers, &weight.numbers, cols);
            let out = lab.poisoned_floats(n * rows);
            let of = Product {
                n,
                rows,
                cols,
                x: x.view(),
                weight: weight.view(),
                out: out.view(),
            };
            launch::check_product(&of, lab.element()).unwrap();
            let ways = lab.device.algorithms(&of).unwrap();
            assert!(!ways.is_empty());
            for way in ways {
                let poison = vec![0xff; n * rows * 4];
                lab.device.write(of.out, &poison).unwrap();
                lab.device.product(&of, &way).unwrap();
                let absolute = SUM * (cols as f64).sqrt();
                close("product", &lab.read_floats(&out), &want, 1e-6, absolute);
            }
        }
    }
}
