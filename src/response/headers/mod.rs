pub(super) mod draft11;
mod exact;
mod policy;
mod shown;
mod x_ratelimit;

use http::{HeaderMap, HeaderName, header};

use self::{
    draft11::Draft11,
    x_ratelimit::{Reset, XRateLimit},
};
pub(crate) use self::{policy::Policy, shown::Shown};

/// Selects the headers that show how much is left. The [module docs](super) have an example.
///
/// Limits in shadow mode are never shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Headers {
    /// `RateLimit` and `RateLimit-Policy` of [draft-ietf-httpapi-ratelimit-headers-11], for all limits.
    ///
    /// [draft-ietf-httpapi-ratelimit-headers-11]:
    ///     https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-11
    #[default]
    Draft11,
    /// The fields of [`Draft11`](Self::Draft11) with [parameters of our own](crate::guide::responses#exact-figures): how units
    /// come back, and when the next one does, in microseconds. [`PaceLayer`](crate::pace::PaceLayer) follows them.
    Exact,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, this in seconds since the Unix epoch, for the strictest limit.
    XRateLimitEpoch,
    /// The fields of [`XRateLimitEpoch`](Self::XRateLimitEpoch), with the reset in seconds from now.
    XRateLimitDelta,
    /// No headers.
    None,
}

impl Headers {
    /// The names of the headers that a browser must be allowed to read, for `expose_headers` of tower-http's
    /// `CorsLayer`. The [guide](crate::guide::responses#cors) has an example.
    #[must_use]
    pub fn exposed(self) -> Vec<HeaderName> {
        let fields: &[HeaderName] = match self {
            Self::Draft11 | Self::Exact => &draft11::NAMES,
            Self::XRateLimitEpoch | Self::XRateLimitDelta => &x_ratelimit::NAMES,
            Self::None => &[],
        };
        let ours = [header::RETRY_AFTER, header::LINK];
        fields.iter().cloned().chain(ours).collect()
    }

    /// Writes the fields for limits and their decisions, or returns `None` if there is nothing to show. `denied` is
    /// whether one of them denies the request.
    #[inline(always)]
    pub(crate) fn write<'a>(
        self,
        decisions: impl Iterator<Item = Shown<'a>>,
        denied: bool,
    ) -> Option<Fields> {
        match self {
            Self::None => None,
            shown => shown.fields(decisions, denied),
        }
    }

    #[inline(never)]
    fn fields<'a>(
        self,
        decisions: impl Iterator<Item = Shown<'a>>,
        denied: bool,
    ) -> Option<Fields> {
        let decisions = decisions.filter(|shown| !shown.decision.in_shadow());
        match self {
            Self::Draft11 => Draft11::new(decisions, denied, false).map(Fields::Draft11),
            Self::Exact => Draft11::new(decisions, denied, true).map(Fields::Draft11),
            Self::XRateLimitEpoch => XRateLimit::new(decisions, Reset::Epoch).map(Fields::Single),
            Self::XRateLimitDelta => XRateLimit::new(decisions, Reset::Delta).map(Fields::Single),
            Self::None => None,
        }
    }
}

/// The fields for the limits of one layer.
#[derive(Debug)]
pub(crate) enum Fields {
    Draft11(Draft11),
    Single(XRateLimit),
}

impl Fields {
    /// Adds the fields to those of inner layers, or replaces them.
    #[inline]
    pub(crate) fn put_on(self, headers: &mut HeaderMap) {
        match self {
            Self::Draft11(fields) => fields.append_to(headers),
            Self::Single(fields) => fields.put_on(headers),
        }
    }
}
