//! Logistic regression with three weights.

/// Weight of the squared weights in the loss, which keeps them finite when words can be separated.
const RIDGE: f64 = 1e-3;

/// Steps of Newton's method, which converges in about ten.
const STEPS: usize = 50;

/// Returns the weights that minimize `Σ ln(1 + exp(-y w·x)) + RIDGE/2 ‖w‖²` over features `x` with labels `y` of 1 and
/// -1, by Newton's method. A step that does not lower the loss is halved.
pub(super) fn logistic(examples: &[([f64; 3], bool)]) -> [f64; 3] {
    let mut weights = [0.0; 3];
    let mut current = loss(examples, weights);
    for _ in 0..STEPS {
        let step = newton_step(examples, weights);
        let mut scale = 1.0;
        let (next, lower) = loop {
            let next: [f64; 3] = std::array::from_fn(|i| weights[i] - scale * step[i]);
            let lower = loss(examples, next);
            if lower < current || scale < 1e-6 {
                break (next, lower);
            }
            scale /= 2.0;
        };
        if lower >= current {
            break;
        }
        let is_done = current - lower < 1e-12 * current;
        (weights, current) = (next, lower);
        if is_done {
            break;
        }
    }
    weights
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn loss(examples: &[([f64; 3], bool)], weights: [f64; 3]) -> f64 {
    let logs = examples.iter().map(|&(features, label)| {
        let logit = dot(features, weights);
        let margin = if label { logit } else { -logit };
        // ln(1 + e^-m) without overflow.
        (-margin).max(0.0) + (-margin.abs()).exp().ln_1p()
    });
    logs.sum::<f64>() + RIDGE / 2.0 * dot(weights, weights)
}

/// Inverse of the Hessian times the gradient.
fn newton_step(examples: &[([f64; 3], bool)], weights: [f64; 3]) -> [f64; 3] {
    let mut gradient = weights.map(|weight| RIDGE * weight);
    let mut hessian = [[RIDGE, 0.0, 0.0], [0.0, RIDGE, 0.0], [0.0, 0.0, RIDGE]];
    for &(features, label) in examples {
        let probability = 1.0 / (1.0 + (-dot(features, weights)).exp());
        let error = probability - f64::from(u8::from(label));
        let variance = probability * (1.0 - probability);
        for row in 0..3 {
            gradient[row] += error * features[row];
            for column in 0..3 {
                hessian[row][column] += variance * features[row] * features[column];
            }
        }
    }
    solved(hessian, gradient)
}

/// Solves a system with a symmetric positive definite matrix by Gaussian elimination.
fn solved(mut matrix: [[f64; 3]; 3], mut right: [f64; 3]) -> [f64; 3] {
    for pivot in 0..3 {
        for row in pivot + 1..3 {
            let (above, factor) = (matrix[pivot], matrix[row][pivot] / matrix[pivot][pivot]);
            for (value, above) in matrix[row].iter_mut().zip(above).skip(pivot) {
                *value -= factor * above;
            }
            right[row] -= factor * right[pivot];
        }
    }
    let mut solution = [0.0; 3];
    for row in (0..3).rev() {
        let known: f64 = (row + 1..3).map(|column| matrix[row][column] * solution[column]).sum();
        solution[row] = (right[row] - known) / matrix[row][row];
    }
    solution
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a constant alone, the probability is the share of right labels: σ(b) = 3/4, b = ln 3.
    #[test]
    fn a_constant_is_the_log_odds_of_the_share() {
        let examples: Vec<_> = (0..4000).map(|i| ([0.0, 0.0, 1.0], i % 4 > 0)).collect();
        let [word, sentence, bias] = logistic(&examples);
        assert!((bias - 3.0_f64.ln()).abs() < 1e-5, "{bias}");
        assert_eq!((word, sentence), (0.0, 0.0));
    }

    /// Two groups with shares 1/5 and 4/5: σ(b) = 1/5, σ(b + w) = 4/5, so b = -ln 4 and w = 2 ln 4.
    #[test]
    fn weights_are_those_of_the_groups() {
        let group = |x: f64, right: usize| (0..5000).map(move |i| ([x, 0.0, 1.0], i % 5 < right));
        let examples: Vec<_> = group(0.0, 1).chain(group(1.0, 4)).collect();
        let [word, _, bias] = logistic(&examples);
        assert!((bias + 4.0_f64.ln()).abs() < 1e-4, "{bias}");
        assert!((word - 2.0 * 4.0_f64.ln()).abs() < 1e-4, "{word}");
    }

    #[test]
    fn weights_stay_finite_when_words_can_be_separated() {
        let examples = [([-5.0, -1.0, 1.0], false), ([5.0, -1.0, 1.0], true)];
        assert!(logistic(&examples).iter().all(|weight| weight.is_finite()));
    }
}
