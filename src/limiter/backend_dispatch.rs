//! The backend of a limiter.

use std::{any::Any, fmt, ops::Deref, sync::Arc};

use crate::backend::{Backend, MemoryBackend};

/// The backend of a limiter. The one in memory is known by its type, so that the compiler sees through a decision from the
/// transaction to the bucket and back.
pub(super) enum BackendDispatch {
    Memory(Arc<MemoryBackend>),
    Other(Box<dyn Backend>),
}

impl BackendDispatch {
    pub(super) fn of(backend: impl Backend) -> Self {
        let mut backend = Some(backend);
        let any: &mut dyn Any = &mut backend;
        if let Some(memory) = any.downcast_mut::<Option<MemoryBackend>>() {
            let memory = memory.take();
            return Self::Memory(Arc::new(memory.expect("nobody else takes it")));
        }
        if let Some(memory) = any.downcast_mut::<Option<Arc<MemoryBackend>>>() {
            return Self::Memory(memory.take().expect("nobody else takes it"));
        }
        Self::Other(Box::new(backend.expect("nobody else takes it")))
    }

    /// Returns the backend, unless it is the one in memory.
    #[inline]
    pub(super) fn store(&self) -> Option<&dyn Backend> {
        match self {
            Self::Memory(_) => None,
            Self::Other(backend) => Some(&**backend),
        }
    }
}

impl Deref for BackendDispatch {
    type Target = dyn Backend;

    #[inline]
    fn deref(&self) -> &Self::Target {
        match self {
            Self::Memory(memory) => &**memory,
            Self::Other(backend) => &**backend,
        }
    }
}

impl fmt::Debug for BackendDispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
