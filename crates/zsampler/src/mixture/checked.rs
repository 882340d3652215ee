//! What a mixture is made of, once nothing about it is wrong.

use super::{MAX_COMPONENTS, MAX_SCHEDULED, Parts, Segment};
use crate::order::Order;
use crate::permute::Domain;
use crate::quota::Quota;
use crate::rng::{Purpose, derive};
use crate::sampler::check_batch_size;
use crate::weights::{Fault, Scale};
use crate::{Error, MAX_STEP, Mode};

impl Parts {
    pub(super) fn new(
        lengths: &[u64],
        batch_size: u64,
        mode: Mode,
        seed: u64,
        schedule: &[(u64, Vec<f64>)],
        exact: bool,
    ) -> Result<Self, Error> {
        check_batch_size(batch_size)?;
        let (components, entries) = (lengths.len() as u64, schedule.len() as u64);
        if components == 0 {
            return Err(Error::NoComponents);
        }
        if components > MAX_COMPONENTS {
            return Err(Error::TooManyComponents { found: components });
        }
        if components.saturating_mul(entries) > MAX_SCHEDULED {
            return Err(Error::ScheduleTooLong { entries, components });
        }
        check_steps(schedule)?;

        let mut segments: Vec<Segment> = Vec::with_capacity(schedule.len());
        for &(from, ref weights) in schedule {
            let quota = quota(lengths, batch_size, from, weights, exact)?;
            let mut before = vec![0; lengths.len()];
            if let Some(last) = segments.last() {
                last.quota.fill(u128::from(from - last.from), batch_size, &mut before);
                before.iter_mut().zip(&last.before).for_each(|(count, earlier)| *count += earlier);
            }
            segments.push(Segment { from, quota, before });
        }
        let orders = (0..)
            .zip(lengths)
            .map(|(component, &length)| {
                Order::new(length, 1, mode, derive(seed, Purpose::Component, component, 0))
            })
            .collect();
        let domain = Domain::new(batch_size);
        Ok(Self { lengths: lengths.to_vec(), orders, domain, batch_size, mode, seed, segments })
    }
}

fn check_steps(schedule: &[(u64, Vec<f64>)]) -> Result<(), Error> {
    let mut steps = schedule.iter().map(|&(step, _)| step);
    let mut before = steps.next().ok_or(Error::NoSchedule)?;
    if before != 0 {
        return Err(Error::ScheduleStart { step: before });
    }
    for (entry, step) in (1..).zip(steps) {
        if step <= before {
            return Err(Error::ScheduleOrder { entry, step, before });
        }
        if step > MAX_STEP {
            return Err(Error::StepTooLarge { step });
        }
        before = step;
    }
    Ok(())
}

fn quota(lengths: &[u64], batch_size: u64, step: u64, weights: &[f64], exact: bool) -> Result<Quota, Error> {
    let (count, found) = (lengths.len() as u64, weights.len() as u64);
    if found != count {
        return Err(Error::WrongShares { step, components: count, found });
    }
    let scale = Scale::new(weights).map_err(|fault| match fault {
        Fault::Bad { index, weight } => Error::BadShare { step, component: index, weight },
        Fault::Zero => Error::ZeroShares { step, count },
        Fault::Overflow => Error::SharesOverflow { step, count },
    })?;
    let empty = (0..).zip(lengths).zip(weights).find(|&((_, &length), &weight)| length == 0 && weight > 0.0);
    if let Some(((component, _), &weight)) = empty {
        return Err(Error::EmptyComponent { step, component, weight });
    }
    if !exact {
        return Ok(Quota::divided(scale, weights));
    }
    Quota::fixed(scale, weights, batch_size).map_err(|refused| {
        let weight = weights.get(refused.component).copied().unwrap_or(0.0);
        Error::NotWhole {
            step,
            component: refused.component as u64,
            weight,
            batch_size,
            product: refused.product,
        }
    })
}
