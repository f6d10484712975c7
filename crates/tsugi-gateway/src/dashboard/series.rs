//! The numbers of one server over the last hour, in a memory that never grows.

use serde::Serialize;

use super::histogram::LatencyHistogram;

/// Seconds that are remembered one by one; a power of two above those that are shown.
const SECONDS: usize = 64;
/// Seconds that are shown.
pub(super) const SHOWN_SECONDS: u64 = 60;
/// How long one point of a chart is, in seconds.
pub(super) const STEP: u64 = 10;
/// Points of a chart: one hour.
pub(super) const POINTS: usize = 360;
/// Points whose latencies are known in detail: one minute.
const DETAILED: usize = 6;
/// Over how many seconds a rate is taken.
const RATE: u64 = 10;

/// Counts and latencies of calls. Seconds are counted from the start of the recorder.
pub(super) struct CallSeries {
    /// The second that is being counted.
    now: u64,
    seconds: [SecondBucket; SECONDS],
    /// Closed points, as a ring: the point of step `n` is at `n % POINTS`.
    points: Box<[ChartPoint; POINTS]>,
    /// Latencies of the last minute and of the step that is being counted, as a ring.
    details: Box<[LatencyHistogram; DETAILED]>,
}

#[derive(Clone, Copy, Default)]
struct SecondBucket {
    calls: u32,
    errors: u32,
}

/// One point of a chart. The latencies are in milliseconds, and absent when there were no calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(super) struct ChartPoint {
    /// When it begins, in milliseconds since 1970.
    pub(super) at: u64,
    pub(super) calls: u32,
    pub(super) errors: u32,
    pub(super) p50: Option<f32>,
    pub(super) p99: Option<f32>,
}

/// How a server does now.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallNumbers {
    /// Over the last ten seconds.
    pub(crate) calls_per_second: f64,
    /// The part of the calls of the last minute that failed.
    pub(crate) error_rate: f64,
    /// Milliseconds, over the last minute.
    pub(crate) p50: Option<f32>,
    /// Milliseconds, over the last minute.
    pub(crate) p99: Option<f32>,
    /// Calls in each of the last sixty seconds, oldest first.
    pub(crate) spark: Vec<u32>,
    /// Calls of the last minute.
    #[serde(skip)]
    pub(crate) calls: u64,
}

impl CallSeries {
    pub(super) fn new(now: u64) -> Self {
        Self {
            now,
            seconds: [SecondBucket::default(); SECONDS],
            points: Box::new([ChartPoint::default(); POINTS]),
            details: Box::new(std::array::from_fn(|_| LatencyHistogram::default())),
        }
    }

    /// Counts a call that ended in this second.
    pub(super) fn add(&mut self, second: u64, micros: u64, is_error: bool) {
        self.advance(second);
        let now = self.now;
        let (counted, point) = (&mut self.seconds[now as usize % SECONDS], &mut self.points[step(now) % POINTS]);
        counted.calls += 1;
        point.calls += 1;
        counted.errors += u32::from(is_error);
        point.errors += u32::from(is_error);
        self.details[step(now) % DETAILED].add(micros);
    }

    /// Empties what lies between the last call and now.
    fn advance(&mut self, second: u64) {
        if second <= self.now {
            return;
        }
        let (before, after) = (step(self.now), step(second));
        // At most one turn of each ring is cleared, however long the silence was.
        for past in (self.now + 1).max(second.saturating_sub(SECONDS as u64 - 1))..=second {
            self.seconds[past as usize % SECONDS] = SecondBucket::default();
        }
        if after > before {
            // Before its histogram is cleared: the point keeps two quantiles of it.
            self.close(before);
            for past in (before + 1).max(after.saturating_sub(POINTS - 1))..=after {
                self.points[past % POINTS] = ChartPoint::default();
            }
            for past in (before + 1).max(after.saturating_sub(DETAILED - 1))..=after {
                self.details[past % DETAILED].clear();
            }
        }
        self.now = second;
    }

    /// A point that is over keeps two numbers of its latencies.
    fn close(&mut self, step: usize) {
        let histogram = &self.details[step % DETAILED];
        let point = &mut self.points[step % POINTS];
        (point.p50, point.p99) = (histogram.quantile(0.5), histogram.quantile(0.99));
    }

    /// How the server does at this second.
    pub(super) fn numbers(&mut self, second: u64) -> CallNumbers {
        self.advance(second);
        let mut minute = LatencyHistogram::default();
        self.details.iter().for_each(|detail| minute.merge(detail));
        // The second that is not over would look like a drop at the end of the line.
        let spark: Vec<u32> = (1..=SHOWN_SECONDS).rev().map(|age| self.second(age).calls).collect();
        // Those of the second that is not over count for the minute, or a first call would show after a second only.
        let all = (0..=SHOWN_SECONDS).map(|age| self.second(age));
        let (calls, errors) = all.fold((0, 0), |(calls, errors), second| {
            (calls + u64::from(second.calls), errors + u64::from(second.errors))
        });
        let lately: u32 = (1..=RATE).map(|age| self.second(age).calls).sum();
        CallNumbers {
            calls_per_second: f64::from(lately) / RATE as f64,
            error_rate: if calls == 0 { 0.0 } else { errors as f64 / calls as f64 },
            p50: minute.quantile(0.5),
            p99: minute.quantile(0.99),
            spark,
            calls,
        }
    }

    /// So many seconds ago; nothing before the beginning.
    fn second(&self, age: u64) -> SecondBucket {
        match self.now.checked_sub(age) {
            Some(second) => self.seconds[second as usize % SECONDS],
            None => SecondBucket::default(),
        }
    }

    /// The points of the last hour, oldest first; the last is not over yet. `began` is the recorder's first
    /// millisecond.
    pub(super) fn points(&mut self, second: u64, began: u64) -> Vec<ChartPoint> {
        self.advance(second);
        let last = step(second);
        // The last point is still open: it shows the quantiles so far.
        self.close(last);
        let first = (last + 1).saturating_sub(POINTS);
        let at = |step: usize| began + step as u64 * STEP * 1000;
        (first..=last).map(|step| ChartPoint { at: at(step), ..self.points[step % POINTS] }).collect()
    }
}

fn step(second: u64) -> usize {
    (second / STEP) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_last_minute() {
        let mut series = CallSeries::new(0);
        for second in 0..30 {
            series.add(second, 1000, second % 3 == 0);
        }
        let numbers = series.numbers(30);
        assert_eq!((numbers.calls, numbers.calls_per_second), (30, 1.0));
        assert!((numbers.error_rate - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(numbers.spark.len(), 60);
        assert_eq!(numbers.spark.iter().sum::<u32>(), 30);
        assert_eq!((numbers.spark[29], numbers.spark[30], numbers.spark[59]), (0, 1, 1));
        let later = series.numbers(200);
        assert_eq!((later.calls, later.error_rate, later.p50), (0, 0.0, None));
    }

    #[test]
    fn a_chart_has_the_last_hour_and_no_more() {
        let mut series = CallSeries::new(0);
        series.add(5, 2000, false);
        series.add(15, 4000, true);
        let points = series.points(19, 1_000_000);
        assert_eq!(
            points.iter().map(|point| (point.at, point.calls, point.errors)).collect::<Vec<_>>(),
            [(1_000_000, 1, 0), (1_010_000, 1, 1)]
        );
        assert!(points[0].p50.is_some_and(|p50| (1.7..2.4).contains(&p50)), "{points:?}");
        let points = series.points(3700, 0);
        assert_eq!((points.len(), points[0].at, points[359].at), (POINTS, 110_000, 3_700_000));
        assert!(points.iter().all(|point| point.calls == 0));
        series.add(100_000, 1, false);
        assert_eq!(series.points(100_000, 0).iter().map(|point| point.calls).sum::<u32>(), 1);
    }
}
