//! Burst against rate, as SVG.

use std::fmt::Write;

use crate::{
    output::grouped,
    suggest::{Candidate, Kind, Suggestion},
};

const WIDTH: u64 = 960;
const HEIGHT: u64 = 320;

/// The room for labels at the left and below.
const LEFT: u64 = 60;
const BELOW: u64 = 70;

/// The room above the highest point, and below the lowest.
const EDGE: u64 = 10;

/// The smallest bursts for each rate, on logarithmic scales, with the recommended limit.
pub(super) fn curve(suggestion: &Suggestion) -> String {
    let measured = &suggestion.measured;
    let at_most = usize::try_from(suggestion.at_most).unwrap_or(usize::MAX);
    let curve = Curve::new(suggestion);
    let line = |class: &str, order: usize| {
        let points = curve.rates.iter().map(|(place, _)| {
            let y = curve.y(measured.need(*place, order));
            format!("{},{y}", curve.x(*place))
        });
        let points: Vec<_> = points.collect();
        format!(
            "<polyline class=\"{class}\" points=\"{}\"/>",
            points.join(" ")
        )
    };
    format!(
        "<figure><svg class=\"curve\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"Burst against rate\">{}{}{}{}</svg>\
         <figcaption><span class=\"nobody\">denies nobody</span><span class=\"share\">denies at most the share</span>\
         <span class=\"chosen\">recommended</span></figcaption></figure>\n",
        HEIGHT + BELOW,
        curve.axes(),
        line("nobody", 0),
        line("share", at_most),
        curve.chosen(suggestion),
    )
}

/// The scales.
struct Curve {
    rates: Vec<(usize, Candidate)>,
    /// The logarithm of the highest burst.
    top: u64,
}

impl Curve {
    fn new(suggestion: &Suggestion) -> Self {
        let rates: Vec<_> = Kind::Gcra.candidates().collect();
        let bursts = rates.iter();
        let bursts = bursts.map(|(place, _)| suggestion.measured.need(*place, 0));
        let top = log2(bursts.max().unwrap_or(1)).max(100);
        Self { rates, top }
    }

    fn x(&self, place: usize) -> u64 {
        LEFT + place as u64 * (WIDTH - LEFT - 2 * EDGE) / (self.rates.len() as u64 - 1).max(1)
    }

    fn y(&self, burst: u64) -> u64 {
        let room = HEIGHT - 2 * EDGE;
        EDGE + room - (log2(burst) * room / self.top).min(room)
    }

    fn axes(&self) -> String {
        let mut axes = String::new();
        for (place, rate) in &self.rates {
            let (x, y, words) = (self.x(*place), HEIGHT + EDGE, rate.words());
            let _ = write!(
                axes,
                "<text x=\"{x}\" y=\"{y}\" transform=\"rotate(45 {x} {y})\">{words}</text>"
            );
        }
        let mut burst = 1;
        while log2(burst) <= self.top {
            let (y, words) = (self.y(burst), grouped(burst));
            let _ = write!(
                axes,
                "<text x=\"0\" y=\"{}\">{words}</text><line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y}\" y2=\"{y}\"/>",
                y + 4
            );
            burst *= 10;
        }
        axes
    }

    /// The recommended limit, if it is a token bucket.
    fn chosen(&self, suggestion: &Suggestion) -> String {
        let choices = suggestion.recommendations.iter().map(|one| &one.choice);
        choices
            .filter(|choice| choice.candidate.kind() == Kind::Gcra)
            .map(|choice| {
                let (x, y) = (self.x(choice.place), self.y(u64::from(choice.size)));
                format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"6\"/>")
            })
            .collect()
    }
}

/// A hundred times the binary logarithm, interpolated.
fn log2(number: u64) -> u64 {
    let number = number.max(1);
    let whole = number.ilog2();
    let power = 1_u64 << whole;
    let fraction = u128::from(number - power) * 100 / u128::from(power);
    u64::from(whole) * 100 + u64::try_from(fraction).unwrap_or_default()
}
