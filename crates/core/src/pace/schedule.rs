//! When requests are due, fixed before the first one is sent.
use crate::error::{Error, Result};

/// More requests than this do not fit in memory comfortably (32 bytes each).
const MAX_REQUESTS: f64 = 2e7;

/// How requests arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Every 1/rate seconds.
    Constant,
    /// Independent of each other: exponential gaps with mean 1/rate.
    Poisson,
}

/// Small random numbers: SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers on every machine.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1), with 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [0, n).
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }
}

/// Times in nanoseconds after the start, ascending, all below `duration_ns`.
pub fn schedule(arrivals: Arrivals, rate: f64, duration_ns: u64, seed: u64) -> Result<Vec<u64>> {
    if !(rate.is_finite() && rate > 0.0) {
        return Err(Error::invalid(
            format!("a rate of {rate} requests/s is not positive"),
            "give a rate like 2000",
        ));
    }
    let expected = rate * duration_ns as f64 / 1e9;
    if expected > MAX_REQUESTS {
        let message = format!("{expected:.0} requests are more than {MAX_REQUESTS:.0}");
        return Err(Error::invalid(message, "shorten --for or lower --rate"));
    }
    if expected < 1.0 {
        return Err(Error::invalid(
            format!("{rate} requests/s for {} s is less than one request", duration_ns as f64 / 1e9),
            "lengthen --for or raise --rate",
        ));
    }
    let mut times = Vec::with_capacity(expected as usize + 1);
    match arrivals {
        Arrivals::Constant => {
            times.extend((0..expected.ceil() as u64).map(|i| (i as f64 * 1e9 / rate) as u64))
        }
        Arrivals::Poisson => {
            let mut random = Random::new(seed);
            let mut at = 0.0;
            loop {
                at -= (1.0 - random.unit()).ln() * 1e9 / rate;
                if at >= duration_ns as f64 {
                    break;
                }
                times.push(at as u64);
            }
        }
    }
    times.retain(|at| *at < duration_ns);
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_is_evenly_spaced() {
        let times = schedule(Arrivals::Constant, 4.0, 1_000_000_000, 0).unwrap();
        assert_eq!(times, [0, 250_000_000, 500_000_000, 750_000_000]);
        assert_eq!(schedule(Arrivals::Constant, 3000.0, 2_000_000_000, 0).unwrap().len(), 6000);
    }

    #[test]
    fn poisson_has_the_rate_and_exponential_gaps() {
        let n = 100_000.0;
        let times = schedule(Arrivals::Poisson, 1000.0, 100_000_000_000, 7).unwrap();
        assert!((times.len() as f64 - n).abs() < 4.0 * n.sqrt(), "{}", times.len());
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((deviation / mean - 1.0).abs() < 0.02, "mean {mean}, deviation {deviation}");
        let beyond = gaps.iter().filter(|g| **g > mean).count() as f64 / gaps.len() as f64;
        assert!((beyond - (-1.0f64).exp()).abs() < 0.01, "{beyond}");
    }

    #[test]
    fn the_seed_decides() {
        let of = |seed| schedule(Arrivals::Poisson, 100.0, 1_000_000_000, seed).unwrap();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for (rate, duration) in
            [(0.0, 1_000_000_000), (f64::NAN, 1_000_000_000), (1e12, 1_000_000_000), (1.0, 1000)]
        {
            assert!(schedule(Arrivals::Constant, rate, duration, 0).is_err(), "{rate}");
        }
    }

    #[test]
    fn splitmix_matches_its_published_sequence() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }
}
