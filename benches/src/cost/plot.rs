//! Lines on two logarithmic scales, as an SVG picture.

use super::Line;
use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
/// Around the plot, for the labels.
const MARGIN: f64 = 64.0;
const COLOURS: [&str; 4] = ["#36c", "#c33", "#283", "#a60"];

/// A picture of seconds by size. `sizes` says what sizes count.
pub fn picture(title: &str, sizes: &str, lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points).filter(|point| point.0 > 0.0 && point.1 > 0.0);
    let range = |of: fn(&(f64, f64)) -> f64| {
        let (low, high) =
            points().map(|point| of(point).log10()).fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        // Whole decades, so that the first and the last line of the grid are the frame.
        if low > high { (0.0, 1.0) } else { (low.floor(), high.ceil().max(low.floor() + 1.0)) }
    };
    let ((left, right), (bottom, top)) = (range(|point| point.0), range(|point| point.1));
    let x = |exponent: f64| MARGIN + (exponent - left) / (right - left) * (WIDTH - 2.0 * MARGIN);
    let y = |exponent: f64| HEIGHT - MARGIN - (exponent - bottom) / (top - bottom) * (HEIGHT - 2.0 * MARGIN);

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"20\">{title}</text>\n"
    );
    let mut add = |text: std::fmt::Arguments<'_>| svg.write_fmt(text).expect("a String takes all text");
    for exponent in left as i32..=right as i32 {
        let at = x(f64::from(exponent));
        add(format_args!("<path d=\"M{at:.1} {:.1}V{:.1}\" stroke=\"#ddd\"/>\n", y(bottom), y(top)));
        let label = y(bottom) + 18.0;
        add(format_args!("<text x=\"{at:.1}\" y=\"{label:.1}\" text-anchor=\"middle\">10^{exponent}</text>\n"));
    }
    for exponent in bottom as i32..=top as i32 {
        let at = y(f64::from(exponent));
        add(format_args!("<path d=\"M{:.1} {at:.1}H{:.1}\" stroke=\"#ddd\"/>\n", x(left), x(right)));
        let text = seconds(exponent);
        add(format_args!("<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>\n", x(left) - 6.0, at + 4.0));
    }
    add(format_args!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{sizes}</text>\n",
        WIDTH / 2.0,
        HEIGHT - 24.0
    ));
    for (at, (line, colour)) in lines.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let shown = line.points.iter().filter(|point| point.0 > 0.0 && point.1 > 0.0);
        let shown: String =
            shown.map(|point| format!("{:.1},{:.1} ", x(point.0.log10()), y(point.1.log10()))).collect();
        add(format_args!("<polyline points=\"{shown}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n"));
        let down = MARGIN + 16.0 * (at as f64 + 1.0);
        add(format_args!("<text x=\"{:.1}\" y=\"{down:.1}\" fill=\"{colour}\">{}</text>\n", MARGIN + 8.0, line.name));
    }
    svg + "</svg>\n"
}

/// A power of ten of seconds in a unit that makes it short.
fn seconds(exponent: i32) -> String {
    let (unit, of) = match exponent {
        ..-6 => ("ns", -9),
        -6..-3 => ("µs", -6),
        -3..0 => ("ms", -3),
        _ => ("s", 0),
    };
    format!("{} {unit}", 10f64.powi(exponent - of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_cost_is_the_diagonal() {
        let line = Line { name: "running", points: vec![(1.0, 1e-6), (10.0, 1e-5), (100.0, 1e-4)] };
        let svg = picture("cost", "operations", &[line]);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("points=\"64.0,376.0 360.0,220.0 656.0,64.0 \""), "{svg}");
        for label in ["10^0", "10^2", "1 µs", "100 µs", "running", "operations"] {
            assert!(svg.contains(label), "{label}");
        }
    }

    #[test]
    fn nothing_and_zeros_still_make_a_picture() {
        for points in [vec![], vec![(1.0, 0.0)], vec![(0.0, 1.0), (1.0, 1.0)]] {
            let svg = picture("", "", &[Line { name: "", points }]);
            assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn powers_of_ten_have_units() {
        assert_eq!(
            [-9, -7, -6, -4, -3, -1, 0, 1].map(seconds),
            ["1 ns", "100 ns", "1 µs", "100 µs", "1 ms", "100 ms", "1 s", "10 s"]
        );
    }
}
