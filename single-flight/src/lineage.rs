//! Which works a call is made from inside of, so that a call inside the work of its own key is refused instead of waiting for itself.
//!
//! A work that runs as a task carries its lineage in a task-local, one that runs on its caller's thread in a thread-local. A task or
//! thread that the work spawns has neither: `within` hands it on.

use crate::key::Key;
use std::cell::RefCell;
use std::sync::Arc;

/// The works that a call is nested in, innermost first. A directory is told by its service's number in this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lineage(Option<Arc<Ancestor>>);

#[derive(Debug)]
struct Ancestor {
    service: u64,
    key: Key,
    outer: Lineage,
}

tokio::task_local! {
    static OF_TASK: Lineage;
}

thread_local! {
    static OF_THREAD: RefCell<Lineage> = const { RefCell::new(Lineage(None)) };
}

impl Lineage {
    /// The lineage of the running task, or of the running thread.
    pub(crate) fn current() -> Lineage {
        let of_task = OF_TASK.try_with(Lineage::clone).ok();
        of_task.unwrap_or_else(|| OF_THREAD.with(|lineage| lineage.borrow().clone()))
    }

    /// The lineage of a work of `key` that was called from inside this lineage.
    pub(crate) fn nest(&self, service: u64, key: Key) -> Lineage {
        Lineage(Some(Arc::new(Ancestor { service, key, outer: self.clone() })))
    }

    /// Whether this is inside a work of `key`, however deep.
    pub(crate) fn contains(&self, service: u64, key: &Key) -> bool {
        let mut next = self.0.as_deref();
        while let Some(ancestor) = next {
            if ancestor.service == service && ancestor.key == *key {
                return true;
            }
            next = ancestor.outer.0.as_deref();
        }
        false
    }

    /// Runs a work's future inside this lineage.
    pub(crate) async fn scope<F: Future>(self, work: F) -> F::Output {
        OF_TASK.scope(self, work).await
    }

    /// Runs a work inside this lineage, on this thread.
    pub(crate) fn scope_blocking<R>(self, work: impl FnOnce() -> R) -> R {
        /// Puts the outer lineage back, also when the work panics.
        struct Restore(Lineage);
        impl Drop for Restore {
            fn drop(&mut self) {
                let outer = std::mem::take(&mut self.0);
                OF_THREAD.with(|lineage| *lineage.borrow_mut() = outer);
            }
        }
        let _restore = Restore(OF_THREAD.with(|lineage| lineage.replace(self)));
        work()
    }
}

#[cfg(test)]
mod tests {
    use super::Lineage;
    use crate::key::Key;

    #[test]
    fn a_lineage_knows_its_ancestors_and_ends_with_the_work() {
        let outer = Lineage::default().nest(1, Key::from("k")).nest(1, Key::from("l"));
        outer.scope_blocking(|| {
            assert!(Lineage::current().contains(1, &Key::from("k")));
            assert!(!Lineage::current().contains(2, &Key::from("k")), "another directory's key is another key");
            assert!(!Lineage::current().contains(1, &Key::from("m")));
        });
        assert!(!Lineage::current().contains(1, &Key::from("k")));
    }

    #[test]
    fn a_panic_ends_the_lineage_too() {
        let lineage = Lineage::default().nest(1, Key::from("k"));
        let panicked = std::panic::catch_unwind(|| lineage.scope_blocking(|| panic!("on purpose")));
        assert!(panicked.is_err() && !Lineage::current().contains(1, &Key::from("k")));
    }
}
