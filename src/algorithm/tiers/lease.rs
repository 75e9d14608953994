use super::tiers::Tiers;
use crate::algorithm::lease::Leasing;

impl Leasing for Tiers {
    fn divisible(&self) -> Result<u32, &'static str> {
        Err("tiers cannot be leased, because what they grant cannot be given back")
    }
}
