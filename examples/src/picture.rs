//! The loss curve as an SVG picture.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
/// Around the plot, for the labels.
const MARGIN: f64 = 56.0;

/// A picture of the loss of every step, and of held-out losses at some steps, in a unit.
pub fn loss_curve(train: &[f32], held_out: &[(u64, f32)], unit: &str) -> String {
    let values = train.iter().copied().chain(held_out.iter().map(|point| point.1)).filter(|loss| loss.is_finite());
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v as f64), high.max(v as f64)));
    let (low, high) = if low > high { (0.0, 1.0) } else { (low.floor(), high.ceil().max(low.floor() + 1.0)) };
    let last = held_out.iter().map(|point| point.0 as usize).chain([train.len(), 1]).max().unwrap_or(1);
    let x = |step: f64| MARGIN + step / last as f64 * (WIDTH - 2.0 * MARGIN);
    let y = |loss: f64| HEIGHT - MARGIN - (loss - low) / (high - low) * (HEIGHT - 2.0 * MARGIN);

    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    let mut add = |text: std::fmt::Arguments<'_>| svg.write_fmt(text).expect("a String takes all text");
    for tick in 0..=4 {
        let (loss, step) = (low + (high - low) * tick as f64 / 4.0, last as f64 * tick as f64 / 4.0);
        let (left, right, bottom) = (MARGIN, WIDTH - MARGIN, HEIGHT - MARGIN);
        add(format_args!("<path d=\"M{left} {0:.1}H{right}\" stroke=\"#ddd\"/>\n", y(loss)));
        add(format_args!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{loss:.2}</text>\n",
            left - 6.0,
            y(loss) + 4.0
        ));
        add(format_args!(
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{step:.0}</text>\n",
            x(step),
            bottom + 18.0
        ));
    }
    add(format_args!("<text x=\"{MARGIN}\" y=\"24\">{unit} by step: "));
    add(format_args!("<tspan fill=\"#36c\">training</tspan>, <tspan fill=\"#c33\">held out</tspan></text>\n"));
    let line = |points: &mut dyn Iterator<Item = (f64, f64)>| -> String {
        points
            .filter(|point| point.1.is_finite())
            .map(|(step, loss)| format!("{:.1},{:.1} ", x(step), y(loss)))
            .collect()
    };
    // Beyond a few points a pixel a line only grows the file: means of equally many steps.
    let each = train.len().div_ceil(2 * WIDTH as usize).max(1);
    let means = train.chunks(each).enumerate().map(|(at, steps)| {
        let mean = steps.iter().sum::<f32>() / steps.len() as f32;
        ((at * each) as f64 + 1.0, mean as f64)
    });
    let training = line(&mut means.into_iter());
    add(format_args!("<polyline points=\"{training}\" fill=\"none\" stroke=\"#36c\"/>\n"));
    let points = line(&mut held_out.iter().map(|&(step, loss)| (step as f64, loss as f64)));
    add(format_args!("<polyline points=\"{points}\" fill=\"none\" stroke=\"#c33\" stroke-width=\"2\"/>\n</svg>\n"));
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_runs_from_corner_to_corner() {
        let svg = loss_curve(&[5.0, 4.0, 1.0], &[(3, 2.0)], "nats per byte");
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        // Step 1 of 3 at the highest loss is at the top; step 3 at the lowest at the bottom right.
        assert!(svg.contains("points=\"258.7,56.0 461.3,128.0 664.0,344.0 \""), "{svg}");
    }

    #[test]
    fn no_steps_and_infinite_losses_still_make_a_picture() {
        for losses in [&[][..], &[f32::NAN], &[f32::INFINITY, 2.0]] {
            let svg = loss_curve(losses, &[], "nats");
            assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
