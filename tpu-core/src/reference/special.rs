//! Functions that the standard library lacks.

/// The error function.
pub fn erf(x: f64) -> f64 {
    libm::erf(x)
}

/// The inverse of the error function: ±∞ at ±1, NaN beyond.
///
/// Starts from Winitzki's closed form and corrects it by Halley's method on `erf` (or `erfc`, where `erf` is close to 1 and has
/// lost the digits), which triples the correct digits each time.
pub fn erf_inv(y: f64) -> f64 {
    let magnitude = y.abs();
    if magnitude.is_nan() || magnitude > 1.0 {
        return f64::NAN;
    }
    if magnitude == 1.0 || magnitude == 0.0 {
        return if magnitude == 0.0 { y } else { f64::INFINITY.copysign(y) };
    }
    let a = 0.147;
    let log = (-magnitude * magnitude).ln_1p();
    let b = 2.0 / (std::f64::consts::PI * a) + log / 2.0;
    let mut x = ((b * b - log / a).sqrt() - b).sqrt();
    if magnitude < 1e-6 {
        // The closed form cancels here; the first terms of the series are exact to 1e-24.
        x = magnitude * std::f64::consts::PI.sqrt() / 2.0;
    }
    for _ in 0..3 {
        let excess = if magnitude > 0.5 { (1.0 - magnitude) - libm::erfc(x) } else { libm::erf(x) - magnitude };
        let step = excess / (std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp());
        x -= step / (1.0 + x * step);
    }
    x.copysign(y)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `scipy.special.erfinv`, which agree with those printed by Wolfram Alpha.
    #[test]
    fn erf_inv_has_the_published_values() {
        for (y, x) in [
            (0.5, 0.476_936_276_204_469_9),
            (0.1, 0.088_855_990_494_257_69),
            (0.9, 1.163_087_153_676_674),
            (-0.99, -1.821_386_367_718_449_7),
            (1e-10, 8.862_269_254_527_58e-11),
        ] {
            let got = erf_inv(y);
            assert!((got - x).abs() <= 4.0 * f64::EPSILON * x.abs(), "erf_inv({y}) = {got}, expected {x}");
        }
        assert_eq!((erf_inv(1.0), erf_inv(-1.0)), (f64::INFINITY, f64::NEG_INFINITY));
        assert!(erf_inv(1.5).is_nan() && erf_inv(f64::NAN).is_nan());
    }

    #[test]
    fn erf_inv_undoes_erf() {
        for i in 1..400 {
            let x = i as f64 / 100.0;
            let (y, slope) = (erf(x), std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp());
            // An error of one ulp of y moves x by ulp / slope.
            let allowed = f64::EPSILON * (2.0 * y / slope + 4.0 * x);
            if y < 1.0 {
                assert!((erf_inv(y) - x).abs() <= allowed, "{x}: {}", erf_inv(y));
            }
        }
    }
}
