//! Coefficients of a sum, by least squares, none of them below zero.
//!
//! What is measured is explained as `Σ coefficient × feature`. Residuals are relative to what was measured:
//! an error of a tenth counts the same for a small load and for a large one.
//! 1. Rows are divided by what was measured, columns by their largest entry.
//! 2. The normal equations are solved by elimination.
//! 3. While a coefficient is below zero, the most negative one is left out, and 2. follows again: no part of a
//!    server gives anything back.

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fit {
    /// One for each feature.
    pub(crate) coefficients: Vec<f64>,
    /// The relative residuals: root of the mean square, and the largest.
    pub(crate) rms: f64,
    pub(crate) worst: f64,
}

/// Fits `measured[i] ≈ Σ coefficients[j] × features[i][j]`. Nothing where there is nothing to fit, or where
/// what was measured isn't above zero.
pub(crate) fn least_squares(features: &[Vec<f64>], measured: &[f64]) -> Option<Fit> {
    let columns = features.first()?.len();
    let odd = features.len() != measured.len()
        || features.iter().any(|row| row.len() != columns || row.iter().any(|x| !x.is_finite()))
        || measured.iter().any(|y| !y.is_finite() || *y <= 0.0);
    if odd || columns == 0 {
        return None;
    }
    let rows: Vec<Vec<f64>> =
        features.iter().zip(measured).map(|(row, y)| row.iter().map(|x| x / y).collect()).collect();
    let largest = |column: usize| rows.iter().map(|row| row[column].abs()).fold(0.0, f64::max);
    let scales: Vec<f64> = (0..columns).map(largest).collect();
    let mut used: Vec<usize> = (0..columns).filter(|column| scales[*column] > 0.0).collect();
    let mut coefficients = vec![0.0; columns];
    while !used.is_empty() {
        let scaled: Vec<Vec<f64>> =
            rows.iter().map(|row| used.iter().map(|&at| row[at] / scales[at]).collect()).collect();
        let found = solve(&scaled);
        let least = found.iter().copied().enumerate().min_by(|a, b| a.1.total_cmp(&b.1))?;
        if least.1 < 0.0 {
            used.remove(least.0);
            continue;
        }
        for (&at, value) in used.iter().zip(found) {
            coefficients[at] = value / scales[at];
        }
        break;
    }
    let residual = |row: &Vec<f64>| {
        (row.iter().zip(&coefficients).map(|(x, c)| x * c).sum::<f64>() - 1.0).abs()
    };
    let residuals: Vec<f64> = rows.iter().map(residual).collect();
    let squares = residuals.iter().map(|r| r * r).sum::<f64>() / residuals.len() as f64;
    Some(Fit {
        coefficients,
        rms: squares.sqrt(),
        worst: residuals.into_iter().fold(0.0, f64::max),
    })
}

/// The least-squares solution of `rows × x = 1`. A column that others explain gets nothing.
fn solve(rows: &[Vec<f64>]) -> Vec<f64> {
    let size = rows[0].len();
    // The matrix of the normal equations, with the right side as its last column.
    let mut matrix = vec![vec![0.0; size + 1]; size];
    for row in rows {
        for i in 0..size {
            for j in 0..size {
                matrix[i][j] += row[i] * row[j];
            }
            matrix[i][size] += row[i];
        }
    }
    let mut pivots = vec![None; size];
    let mut free: Vec<usize> = (0..size).collect();
    for column in 0..size {
        let best = free
            .iter()
            .copied()
            .max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()));
        let Some(pivot) = best.filter(|row| matrix[*row][column].abs() > 1e-12) else { continue };
        free.retain(|row| *row != pivot);
        pivots[column] = Some(pivot);
        let by = matrix[pivot].clone();
        let others = matrix.iter_mut().enumerate().filter(|(row, _)| *row != pivot);
        for (_, cells) in others {
            let times = cells[column] / by[column];
            for (cell, by) in cells.iter_mut().zip(&by).skip(column) {
                *cell -= times * by;
            }
        }
    }
    let value = |column: usize| {
        pivots[column].map_or(0.0, |row: usize| matrix[row][size] / matrix[row][column])
    };
    (0..size).map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::random::Random;

    fn made(coefficients: &[f64], noise: f64, seed: u64) -> (Vec<Vec<f64>>, Vec<f64>) {
        let mut random = Random::new(seed);
        let mut features = Vec::new();
        let mut measured = Vec::new();
        for _ in 0..12 {
            let row: Vec<f64> = coefficients
                .iter()
                .enumerate()
                .map(|(at, _)| {
                    if at == 0 {
                        1.0
                    } else {
                        10f64.powi(at as i32) * (1 + random.below(100)) as f64
                    }
                })
                .collect();
            let exact: f64 = row.iter().zip(coefficients).map(|(x, c)| x * c).sum();
            let error = noise * (random.below(2001) as f64 / 1000.0 - 1.0);
            features.push(row);
            measured.push(exact * (1.0 + error));
        }
        (features, measured)
    }

    #[test]
    fn known_coefficients_come_back() {
        for known in [vec![30e6, 4000.0, 350.0, 0.5], vec![0.002, 3e-5, 2e-7], vec![7.0]] {
            let (features, measured) = made(&known, 0.0, 7);
            let fit = least_squares(&features, &measured).unwrap();
            for (found, known) in fit.coefficients.iter().zip(&known) {
                assert!((found / known - 1.0).abs() < 1e-6, "{found} for {known}");
            }
            assert!(fit.worst < 1e-9, "{}", fit.worst);
        }
    }

    #[test]
    fn residuals_say_how_far_it_is_off() {
        let (features, measured) = made(&[1e6, 40.0, 3.0], 0.05, 11);
        let fit = least_squares(&features, &measured).unwrap();
        assert!(fit.rms > 0.005 && fit.rms < 0.05 && fit.worst < 0.08, "{fit:?}");
        assert!(fit.worst >= fit.rms);
    }

    #[test]
    fn nothing_is_given_back() {
        let features: Vec<Vec<f64>> = (1..8).map(|x| vec![1.0, f64::from(x)]).collect();
        let measured: Vec<f64> = (1..8).map(|x| 10.0 - f64::from(x)).collect();
        let fit = least_squares(&features, &measured).unwrap();
        assert_eq!(fit.coefficients[1], 0.0);
        assert!(fit.coefficients[0] > 0.0 && fit.worst > 0.2, "{fit:?}");
    }

    #[test]
    fn what_always_is_zero_or_twofold_is_borne() {
        let features: Vec<Vec<f64>> =
            (1..8).map(|x| vec![0.0, f64::from(x), 2.0 * f64::from(x)]).collect();
        let measured: Vec<f64> = (1..8).map(|x| 3.0 * f64::from(x)).collect();
        let fit = least_squares(&features, &measured).unwrap();
        assert!(fit.worst < 1e-6, "{fit:?}");
        assert_eq!(fit.coefficients[0], 0.0);
    }

    #[test]
    fn what_can_not_be_fitted_is_refused() {
        assert_eq!(least_squares(&[], &[]), None);
        assert_eq!(least_squares(&[vec![1.0]], &[0.0]), None);
        assert_eq!(least_squares(&[vec![f64::NAN]], &[1.0]), None);
        assert_eq!(least_squares(&[vec![1.0], vec![1.0, 2.0]], &[1.0, 1.0]), None);
    }
}
