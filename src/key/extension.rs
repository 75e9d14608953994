use std::{any::type_name, fmt, sync::Arc};

use http::request::Parts;

use super::{Extracted, KeyExtractor, Missing};
use crate::id::{Id, IdError};

/// An id from a value of type `T` that an outer layer, such as one that authenticates, has put into
/// the request's extensions.
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
}

impl<T> ExtensionId<T> {
    /// The id that `id` makes of the extension.
    #[must_use]
    pub fn new<I: Into<Id>>(id: impl Fn(&T) -> I + Send + Sync + 'static) -> Self {
        Self {
            id: Arc::new(move |value| id(value).into()),
        }
    }
}

impl<T: Send + Sync + 'static> KeyExtractor for ExtensionId<T> {
    fn extract(&self, parts: &Parts) -> Extracted {
        match parts.extensions.get::<T>() {
            Some(value) => Extracted::Id((self.id)(value)),
            None => Extracted::Missing(Missing::server(format!(
                "the request has no extension `{}`: add the layer that sets it outside of this one",
                type_name::<T>()
            ))),
        }
    }

    fn invalid(&self, error: &IdError) -> Missing {
        // The id is not the client's to read, nor the log's.
        let reason = error.without_id();
        Missing::server(format!("extension `{}`: {reason}", type_name::<T>()))
    }
}

impl<T> Clone for ExtensionId<T> {
    fn clone(&self) -> Self {
        Self {
            id: Arc::clone(&self.id),
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
