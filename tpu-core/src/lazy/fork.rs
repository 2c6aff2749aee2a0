//! Whether this process is another one than before: a forked child has none of its parent's threads.
//!
//! Asking the system for the process's number takes as long as recording an operation and running it, so the system's
//! `fork` tells us instead.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How many forks lie between this process and the first one that asked.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// A number that differs between a process and its forked children.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Relaxed)
}

/// Has forks counted from now on.
pub(crate) fn watch() {
    #[cfg(unix)]
    {
        static WATCH: std::sync::Once = std::sync::Once::new();
        extern "C" fn in_child() {
            GENERATION.fetch_add(1, Relaxed);
        }
        WATCH.call_once(|| {
            // SAFETY: the function may be called in a child that has but one thread: it changes one number, atomically.
            let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
            if failed != 0 {
                tracing::warn!(failed, "forks cannot be noticed: a forked child must not use devices of its parent");
            }
        });
    }
}
