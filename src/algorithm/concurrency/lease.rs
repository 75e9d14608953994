use super::concurrency::Concurrency;
use crate::algorithm::lease::Leasing;

impl Leasing for Concurrency {
    fn divisible(&self) -> Result<u32, &'static str> {
        Err("permits cannot be leased, because work holds them only as long as it runs")
    }
}
