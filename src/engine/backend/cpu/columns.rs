//! A range of columns of a row-major matrix, writable while other threads write other columns.
//!
//! Main type: [`Columns`]. Threads that share a matrix product each own some of its output columns; safe
//! slices cannot say that. Refuses to know: what is written.

#![expect(
    unsafe_code,
    reason = "disjoint columns of one matrix cannot be said with slices"
)]

use std::marker::PhantomData;

/// Columns `first .. first + width` of a matrix of `rows` rows.
pub struct Columns<'a> {
    start: *mut f32,
    rows: usize,
    stride: usize,
    first: usize,
    width: usize,
    matrix: PhantomData<&'a mut [f32]>,
}

// SAFETY: a `Columns` is the only way to its elements while it lives (`new` borrows the matrix mutably,
// `split_at` divides without overlap), and f32 may be written from any thread.
unsafe impl Send for Columns<'_> {}

impl<'a> Columns<'a> {
    /// All the columns of `matrix`, whose rows are `stride` apart and `width` wide.
    pub fn new(matrix: &'a mut [f32], rows: usize, stride: usize, width: usize) -> Self {
        assert!(width <= stride, "rows must not overlap");
        let needed = if rows == 0 {
            0
        } else {
            (rows - 1) * stride + width
        };
        assert!(
            matrix.len() >= needed,
            "the matrix has {} of {needed} elements",
            matrix.len()
        );
        Self {
            start: matrix.as_mut_ptr(),
            rows,
            stride,
            first: 0,
            width,
            matrix: PhantomData,
        }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Where these columns begin in the matrix that `new` was given.
    pub fn first(&self) -> usize {
        self.first
    }

    pub fn width(&self) -> usize {
        self.width
    }

    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The first row's first element; row i begins `i * stride` further. Valid for writes within the
    /// columns only.
    pub fn as_mut_ptr(&mut self) -> *mut f32 {
        self.start
    }

    pub fn split_at(self, width: usize) -> (Self, Self) {
        assert!(
            width <= self.width,
            "cannot split {} columns at {width}",
            self.width
        );
        let right = Self {
            // SAFETY: `width <= self.width`, so this stays within the first row or one past its end.
            start: unsafe { self.start.add(width) },
            first: self.first + width,
            width: self.width - width,
            ..self
        };
        (Self { width, ..self }, right)
    }

    /// Adds `bias[column]` to every row; `bias` covers the whole matrix.
    pub fn add(&mut self, bias: &[f32]) {
        let bias = &bias[self.first..self.first + self.width];
        for row in 0..self.rows {
            // SAFETY: the row's part of these columns: in bounds by `new`, ours alone by `split_at`.
            let out = unsafe {
                std::slice::from_raw_parts_mut(self.start.add(row * self.stride), self.width)
            };
            for (out, bias) in out.iter_mut().zip(bias) {
                *out += bias;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_disjoint_and_in_place() {
        let mut matrix = vec![0.0; 6];
        let (mut left, mut right) = Columns::new(&mut matrix, 2, 3, 3).split_at(1);
        assert_eq!(
            (left.first(), left.width(), right.first(), right.width()),
            (0, 1, 1, 2)
        );
        left.add(&[1.0, 2.0, 3.0]);
        right.add(&[1.0, 2.0, 3.0]);
        assert_eq!(matrix, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    #[should_panic(expected = "elements")]
    fn a_matrix_that_is_too_small_is_refused() {
        Columns::new(&mut [0.0; 5], 2, 3, 3);
    }
}
