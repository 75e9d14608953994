use crate::{
    algorithm::{Algorithm, Ask, Denied},
    clock::Timestamp,
    decision::State,
    transaction::Fingerprint,
};

/// A bucket that was denied, or whose denials are not remembered.
#[derive(Clone)]
pub(super) struct DeniedBucket {
    pub(super) print: Fingerprint,
    /// The denial, with a state by our clock or the client's; `None` if a give-back to the bucket may be under way, so that
    /// its denials are not remembered.
    pub(super) denied: Option<Denied>,
    /// The end of its lifetime, by our clock.
    pub(super) until: Timestamp,
    /// Whether the client's clock decided.
    pub(super) is_clients: bool,
}

impl DeniedBucket {
    pub(super) const NOBODY: Self =
        Self::unsettled(Fingerprint { low: 0, high: 0 }, Timestamp::from_micros(0));

    /// Creates an entry that keeps the denials of a bucket from being remembered.
    pub(super) const fn unsettled(print: Fingerprint, until: Timestamp) -> Self {
        Self {
            print,
            denied: None,
            until,
            is_clients: false,
        }
    }

    pub(super) const fn is_unsettled(&self) -> bool {
        self.denied.is_none()
    }

    /// Returns whether the entry is no longer needed beside another one.
    pub(super) fn is_replaced_by(&self, entry: &Self) -> bool {
        let cost = |entry: &Self| entry.denied.as_ref().map(Denied::cost);
        self.print == entry.print && (self.is_unsettled() || cost(self) == cost(entry))
    }

    /// Returns the state of the bucket at `now`, if it denies the request.
    pub(super) fn denial(
        &self,
        algorithm: &Algorithm,
        ask: &Ask<'_>,
        now: Timestamp,
    ) -> Option<State> {
        algorithm.denies(self.denied.as_ref()?, ask, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_as_documented() {
        assert!(size_of::<DeniedBucket>() <= 120);
    }
}
