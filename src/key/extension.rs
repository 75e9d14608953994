use std::{any::type_name, fmt, sync::Arc};

use http::request::Parts;

use super::{
    extracted::{Extracted, MissingId},
    extractor::{IdProperties, KeyExtractor},
};
use crate::id::Id;

/// An id from a value of type `T` that an outer layer, such as an authentication layer, has put into the request's
/// extensions.
///
/// ```
/// use tollgate::{Rule, id::Id, key::ExtensionId};
///
/// #[derive(Clone)]
/// struct User { number: u64 }
///
/// let rule = Rule::new("requests", ExtensionId::new(|user: &User| Id::display(user.number)));
/// # let _ = rule;
/// ```
pub struct ExtensionId<T> {
    id: Arc<dyn Fn(&T) -> Id + Send + Sync>,
    is_optional: bool,
}

impl<T> ExtensionId<T> {
    /// Computes the id from the extension, which every request must have. A request without it is refused with 500,
    /// and the missing layer is logged, unless the rule says otherwise.
    #[must_use]
    pub fn new<I: Into<Id>>(id: impl Fn(&T) -> I + Send + Sync + 'static) -> Self {
        Self {
            id: Arc::new(move |value| id(value).into()),
            is_optional: false,
        }
    }

    /// Computes the id from an extension that only some requests have, such as those of users who have logged in. The
    /// rule is skipped for other requests, and nothing is logged.
    ///
    /// Requests without the extension are not limited by this rule. Add an extractor or a rule for them with
    /// [`or_else`](super::KeyExtractorExt::or_else) or [`Rule::or_else`](crate::Rule::or_else).
    ///
    /// ```
    /// use tollgate::{ClientIp, Rule, key::ExtensionId};
    ///
    /// #[derive(Clone)]
    /// struct User { name: String }
    ///
    /// let user = ExtensionId::optional(|user: &User| user.name.clone());
    /// let rule = Rule::new("per-user", user).or_else(Rule::new("per-ip", ClientIp::peer()));
    /// # let _ = rule;
    /// ```
    #[must_use]
    pub fn optional<I: Into<Id>>(id: impl Fn(&T) -> I + Send + Sync + 'static) -> Self {
        Self {
            is_optional: true,
            ..Self::new(id)
        }
    }
}

impl<T: Send + Sync + 'static> KeyExtractor for ExtensionId<T> {
    fn extract(&self, parts: &Parts) -> Extracted {
        match parts.extensions.get::<T>() {
            Some(value) => Extracted::Id((self.id)(value)),
            None if self.is_optional => Extracted::Skip,
            None => Extracted::Missing(MissingId::server(format!(
                "the request has no extension `{}`: add the layer that sets it outside of this one, or use \
                 `ExtensionId::optional` if requests may come without it",
                type_name::<T>()
            ))),
        }
    }

    fn describe(&self) -> IdProperties {
        IdProperties::default().invalid(|error| {
            // Neither the client nor the log should see the id.
            let reason = error.without_id();
            MissingId::server(format!("extension `{}`: {reason}", type_name::<T>()))
        })
    }
}

impl<T> Clone for ExtensionId<T> {
    fn clone(&self) -> Self {
        Self {
            id: Arc::clone(&self.id),
            is_optional: self.is_optional,
        }
    }
}

impl<T> fmt::Debug for ExtensionId<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExtensionId")
            .field(&type_name::<T>())
            .finish()
    }
}
