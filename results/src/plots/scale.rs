//! Where on an axis a number stands, and what the axis says beside it.

use super::series::Spread;

/// Whole decades of nanoseconds.
pub(super) struct LogScale {
    from: u32,
    to: u32,
}

impl LogScale {
    /// The decades in which all of these lie, at least one; `None` if there are none.
    pub(super) fn over<'a>(spreads: impl Iterator<Item = &'a Spread>) -> Option<LogScale> {
        let all =
            spreads.flat_map(|spread| spread.ok.into_iter().flatten().chain(spread.fail).chain(spread.info));
        // Shorter than a microsecond is no op, but a clock that stands still.
        let all: Vec<_> = all.map(|took_ns| took_ns.max(1_000)).collect();
        let (least, most) = (all.iter().min()?, all.iter().max()?);
        Some(LogScale { from: least.ilog10(), to: most.ilog10() + 1 })
    }

    pub(super) fn share(&self, took_ns: i64) -> f64 {
        ((took_ns.max(1) as f64).log10() - f64::from(self.from)) / f64::from(self.to - self.from)
    }

    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let label = |decade: u32| match decade {
            0..3 => format!("{} ns", 10_u64.pow(decade)),
            3..6 => format!("{} µs", 10_u64.pow(decade - 3)),
            6..9 => format!("{} ms", 10_u64.pow(decade - 6)),
            _ => format!("{} s", 10_u64.pow(decade - 9)),
        };
        // Labels of more decades would touch.
        let every = (self.to - self.from).div_ceil(5);
        let decades = (self.from..=self.to).step_by(every as usize);
        let share = |decade: u32| f64::from(decade - self.from) / f64::from(self.to - self.from);
        decades.map(|decade| (share(decade), label(decade))).collect()
    }
}

/// A scale from 0: its end, at or above `most`, and the step of its lines, about `lines` of them.
pub(super) fn round_scale(most: f64, lines: u32) -> (f64, f64) {
    let least = (most / f64::from(lines)).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= least);
    let step = step.unwrap_or(10.0 * power);
    ((most / step).ceil().max(1.0) * step, step)
}

/// `0`, `0.5`, `120`, `12k`.
pub(super) fn short_number(number: f64) -> String {
    if number >= 10_000.0 {
        format!("{}k", number / 1_000.0)
    } else {
        // Steps are 1, 2 or 5 times a power of ten: two digits tell them apart, and hide what a float adds.
        format!("{}", (number * 100.0).round() / 100.0)
    }
}

const MS: i64 = 1_000_000;
const DAY_NS: i64 = 86_400_000 * MS;
/// What people count time in. Units: milliseconds.
const TIME_STEPS_MS: [i64; 24] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000,
    600_000, 1_800_000, 3_600_000, 7_200_000, 14_400_000, 43_200_000, 86_400_000,
];
/// Labels on the time axis; more would touch.
const MAX_TIME_LABELS: i64 = 12;

pub(super) fn time_step_ns(duration_ns: i64) -> i64 {
    let fits = |step_ms: &&i64| duration_ns / (*step_ms * MS) < MAX_TIME_LABELS;
    match TIME_STEPS_MS.iter().find(fits) {
        Some(step_ms) => step_ms * MS,
        None => (duration_ns / MAX_TIME_LABELS / DAY_NS + 1) * DAY_NS,
    }
}

pub(super) fn time_label(at_ns: i64, step_ns: i64) -> String {
    let at_ms = at_ns / MS;
    match step_ns / MS {
        ..1_000 => format!("{at_ms} ms"),
        1_000..60_000 => format!("{} s", at_ms / 1_000),
        60_000..3_600_000 => format!("{} min", at_ms / 60_000),
        _ => format!("{} h", at_ms / 3_600_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    #[test]
    fn scales_are_round() {
        let check = |most: f64, expected: (f64, f64)| assert_eq!(round_scale(most, 4), expected);
        check(40.0, (40.0, 10.0));
        check(41.0, (60.0, 20.0));
        check(0.4, (0.4, 0.1));
        check(9_000.0, (10_000.0, 5_000.0));
        assert_eq!([0.0, 0.25, 120.0, 12_500.0].map(short_number), ["0", "0.25", "120", "12.5k"]);
    }

    #[test]
    fn times_are_labelled_as_people_count_them() {
        let check = |duration_s: i64, last: &str| {
            let step_ns = time_step_ns(duration_s * S);
            assert_eq!(time_label(duration_s * S / step_ns * step_ns, step_ns), last);
        };
        check(1, "1000 ms");
        check(30, "30 s");
        check(100, "100 s");
        check(300, "300 s");
        check(600, "10 min");
        check(7_200, "120 min");
        check(86_400, "24 h");
        check(8_640_000, "2376 h");
    }
}
