//! The overrides of ranges of addresses.

use std::{net::IpAddr, sync::Arc};

use ipnet::IpNet;
use prefix_trie::joint::JointPrefixMap;

use super::client_override::Override;

/// The overrides for ranges of addresses, by prefix.
#[derive(Clone, Default)]
pub(super) struct RangeOverrides(JointPrefixMap<IpNet, Arc<Override>>);

impl RangeOverrides {
    /// Returns the override of the longest range that contains the client with a folded id, or of the range with this text.
    pub(super) fn get(&self, folded: &str) -> Option<&Override> {
        if self.0.is_empty() {
            return None;
        }
        match folded.parse::<IpAddr>() {
            Ok(ip) => self.0.get_lpm(&ip.into()).map(|(_, own)| &**own),
            Err(_) => self.0.get(&folded.parse().ok()?).map(|own| &**own),
        }
    }

    /// Replaces or removes the override of a range. Returns the one before.
    pub(super) fn change(
        &mut self,
        range: IpNet,
        new: Option<Arc<Override>>,
    ) -> Option<Arc<Override>> {
        match new {
            Some(own) => self.0.insert(range, own),
            None => self.0.remove(&range),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Override>> {
        self.0.values()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use crate::limit::{Limit, mistake::Location};

    /// A sequence of numbers without a pattern.
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            self.0 >> 33
        }

        /// A range in a small space, so that many are within others.
        fn range(&mut self) -> IpNet {
            let number = self.next();
            let bits = u8::try_from(self.next() % 9).unwrap();
            let ip: IpAddr = if number.is_multiple_of(2) {
                Ipv4Addr::from_bits(u32::try_from(number).unwrap() << 24).into()
            } else {
                Ipv6Addr::from_bits(u128::from(number) << 120).into()
            };
            IpNet::new(ip, bits).unwrap().trunc()
        }
    }

    fn own(range: IpNet) -> Arc<Override> {
        let id = range.to_string();
        Arc::new(Override::new(
            &id,
            &id,
            Limit::BLOCKED.into(),
            Location::default(),
        ))
    }

    #[test]
    fn longest_of_the_ranges_that_remain_is_found() {
        let mut overrides = RangeOverrides::default();
        let mut ranges: Vec<IpNet> = Vec::new();
        let mut numbers = Numbers(1);
        for _ in 0..2_000 {
            let range = numbers.range();
            ranges.retain(|other| *other != range);
            if numbers.next().is_multiple_of(3) {
                overrides.change(range, None);
            } else {
                overrides.change(range, Some(own(range)));
                ranges.push(range);
            }
            let client = numbers.range().addr();
            let holding = ranges.iter().filter(|range| range.contains(&client));
            let longest = holding.max_by_key(|range| range.prefix_len());
            let found = overrides.get(&client.to_string());
            let found = found.map(|own| own.id().parse().unwrap());
            assert_eq!(found.as_ref(), longest, "{client}");
        }
    }

    #[test]
    fn only_addresses_are_in_ranges() {
        let mut overrides = RangeOverrides::default();
        assert!(overrides.get("192.0.2.1").is_none());
        for all in ["0.0.0.0/0", "::/0"].map(|all| all.parse().unwrap()) {
            overrides.change(all, Some(own(all)));
        }
        for (id, range) in [
            ("192.0.2.1", Some("0.0.0.0/0")),
            ("2001:db8::1", Some("::/0")),
            (crate::id::MISSING, None),
            ("192.0.2.0/24", None),
            ("0.0.0.0/0", Some("0.0.0.0/0")),
        ] {
            assert_eq!(overrides.get(id).map(Override::id), range, "{id}");
        }
    }
}
