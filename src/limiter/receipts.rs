//! Receipts as text, for callers that keep them elsewhere or refund them from another process.

use super::{Limiter, limiter_error::LimiterError};
use crate::transaction::{BucketKey, ClientFingerprint, IdHash, LimitRef, Receipt};

impl Limiter {
    /// Writes a receipt of this limit and this client as text, for another process to [read](Self::read_receipt).
    ///
    /// The text has up to 200 letters and digits. It is bound to the limit and the client. It is no secret, and no
    /// proof against forgery: keep it where clients cannot change it.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter, Limits, MemoryBackend, Transaction};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limits = Limits::builder().limit("logins", Limit::per_hour(5)).build()?;
    /// let limiter = Limiter::new(limits, MemoryBackend::new());
    /// let decision = limiter.spend(&Transaction::new("logins", "alice")).await?;
    /// let receipt = decision.receipt().expect("it was charged");
    ///
    /// let text = limiter.write_receipt("logins", "alice", &receipt)?;
    /// let read = limiter.read_receipt("logins", "alice", &text)?;
    /// assert_eq!(read, receipt);
    /// assert!(limiter.read_receipt("logins", "bob", &text).is_err());
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the limit is not known, the id is not one for it, or the receipt is not one of this limit and this client.
    pub fn write_receipt<'a>(
        &self,
        limit: impl Into<LimitRef<'a>>,
        id: &str,
        receipt: &Receipt,
    ) -> Result<String, LimiterError> {
        let limit = limit.into();
        self.with_client(limit, id, |key, client| {
            let is_own = receipt.is_for(client);
            is_own.then(|| receipt.to_text(key))
        })
    }

    /// Reads a receipt that [`write_receipt`](Self::write_receipt) has written, in this process or in another one.
    ///
    /// A receipt of a charge that another process decided alone, because the store did not answer, gives nothing back
    /// here.
    ///
    /// # Errors
    ///
    /// If the limit is not known, the id is not one for it, or the text is not a receipt of this limit and this client.
    pub fn read_receipt<'a>(
        &self,
        limit: impl Into<LimitRef<'a>>,
        id: &str,
        text: &str,
    ) -> Result<Receipt, LimiterError> {
        let limit = limit.into();
        self.with_client(limit, id, |key, client| {
            Receipt::from_text(text, key, client)
        })
    }

    /// Looks up a client of a limit, and passes its key and its fingerprint to `look`.
    fn with_client<T>(
        &self,
        limit: LimitRef<'_>,
        id: &str,
        look: impl FnOnce(BucketKey<'_>, ClientFingerprint) -> Option<T>,
    ) -> Result<T, LimiterError> {
        let limits = self.in_force();
        let Some(named) = limits.find(limit) else {
            return Err(LimiterError::unknown_limit(limit.as_str(), &limits));
        };
        let folded = named.name.format().fold(id);
        let folded =
            folded.map_err(|error| LimiterError::invalid_id(named.name.as_str(), error))?;
        let id = folded.as_str();
        let found = look(
            BucketKey::new(named.name.key(), id),
            named.seed().client(IdHash::of(id)),
        );
        found.ok_or_else(|| LimiterError::foreign_receipt(limit))
    }
}
