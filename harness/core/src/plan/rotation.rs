//! Which faults act when, where they take turns: a run is cut into periods, and in each another mix of them acts, in some
//! none. What a system makes of two faults at once, and whether it recovers when all is calm, is then seen in one run.

use super::TestConfig;
use crate::seed::Seed;
use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use std::collections::BTreeSet;

/// One period in so many is calm, of those after the first.
const CALM_ONE_IN: u32 = 4;

/// Which faults act in which period.
pub(super) struct Rotation {
    period_ms: u64,
    /// For each period the faults, by their places in the list of all.
    mixes: Vec<BTreeSet<usize>>,
}

impl Rotation {
    /// Draws the mixes of a run with so many faults; `None` if all of them act all the time.
    ///
    /// Each fault in turn is sure of a period, so that none is left out of a run that has enough of them.
    pub(super) fn draw(config: &TestConfig, faults: usize) -> Option<Rotation> {
        let period_ms = config.rotate_ms.filter(|ms| *ms > 0 && faults > 0)?;
        let mut random = Seed(config.seed).stream("nemesis", "rotation");
        let mut order: Vec<usize> = (0..faults).collect();
        order.shuffle(&mut random);
        let mut turns = order.iter().copied().cycle();
        let periods = config.time_limit_ms.div_ceil(period_ms);
        let mixes = (0..periods).map(|period| {
            if period > 0 && random.random_ratio(1, CALM_ONE_IN) {
                return BTreeSet::new();
            }
            let size = random.random_range(1..=faults);
            let mut mix: BTreeSet<usize> = turns.next().into_iter().collect();
            let mut others = order.clone();
            others.shuffle(&mut random);
            for fault in others {
                if mix.len() < size {
                    mix.insert(fault);
                }
            }
            mix
        });
        Some(Rotation { period_ms, mixes: mixes.collect() })
    }

    /// When a fault may strike that would at this time: from then until when. `None`: not in this run any more.
    pub(super) fn turn(&self, fault: usize, at_ms: u64) -> Option<(u64, u64)> {
        let now = at_ms / self.period_ms;
        let acts = |period: &u64| self.mixes[*period as usize].contains(&fault);
        let period = (now..self.mixes.len() as u64).find(acts)?;
        let last = (period..self.mixes.len() as u64).take_while(acts).last().unwrap_or(period);
        Some((at_ms.max(period * self.period_ms), (last + 1) * self.period_ms))
    }
}
