//! How long calls took, to about a tenth, in half a kilobyte.

/// Four buckets for each doubling, from a microsecond to more than an hour.
const BUCKETS: usize = 128;

/// Counts by latency.
#[derive(Clone)]
pub(super) struct LatencyHistogram {
    total: u32,
    counts: [u32; BUCKETS],
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { total: 0, counts: [0; BUCKETS] }
    }
}

impl LatencyHistogram {
    pub(super) fn add(&mut self, micros: u64) {
        self.total += 1;
        self.counts[bucket(micros)] += 1;
    }

    pub(super) fn clear(&mut self) {
        if self.total > 0 {
            *self = Self::default();
        }
    }

    pub(super) fn merge(&mut self, other: &LatencyHistogram) {
        if other.total > 0 {
            self.total += other.total;
            self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        }
    }

    /// The latency in milliseconds that this part of the calls did not exceed; `None` without calls.
    pub(super) fn quantile(&self, part: f64) -> Option<f32> {
        let wanted = (f64::from(self.total) * part).ceil().max(1.0) as u32;
        let mut seen = 0;
        let index = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(middle(index) / 1000.0)
    }
}

/// The position of the highest bit and the two bits after it.
fn bucket(micros: u64) -> usize {
    let micros = micros.max(4);
    let high = micros.ilog2();
    let after = (micros >> (high - 2)) & 3;
    ((high as usize - 2) * 4 + after as usize).min(BUCKETS - 1)
}

/// The middle of a bucket, in microseconds.
fn middle(index: usize) -> f32 {
    let (high, after) = (index / 4 + 2, index % 4);
    let width = (1_u64 << (high - 2)) as f32;
    (4 + after) as f32 * width + width / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_known_to_about_a_tenth() {
        for micros in [5, 100, 999, 12_345, 1_000_000, 90_000_000] {
            let shown = f64::from(middle(bucket(micros)));
            assert!((shown / micros as f64 - 1.0).abs() < 0.13, "{micros} is shown as {shown}");
        }
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_count_calls() {
        let mut histogram = LatencyHistogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        (0..98).for_each(|_| histogram.add(1000));
        (0..2).for_each(|_| histogram.add(1_000_000));
        assert!(histogram.quantile(0.5).unwrap() < 2.0);
        assert!(histogram.quantile(0.99).unwrap() > 800.0);
    }
}
