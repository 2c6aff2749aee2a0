//! A processor for each worker of a pool that has as many workers as there are processors.
//!
//! Without it Linux may wake two workers on one processor and leave the other idle: for up to 20 ms after a pause, a program whose
//! halves take 0.5 ms took 1.05 ms on two processors, and 0.54 with a processor for each. Its search for an idle processor
//! (`select_idle_cpu`) gives up when few processors share a cache, and threads that run for less than a tick are never moved later.

/// The processors that this thread may use, one for each of `workers`; `None` when there are more or fewer, or the system cannot say.
pub fn processors(workers: usize) -> Option<Vec<usize>> {
    let processors = allowed()?;
    (processors.len() == workers).then_some(processors)
}

#[cfg(target_os = "linux")]
fn allowed() -> Option<Vec<usize>> {
    // SAFETY: a set of processors is an array of bits, for which zeros are a value; the call writes within the size that it is given.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (libc::sched_getaffinity(0, size_of_val(&set), &mut set) == 0).then_some(set)
    }?;
    let all = 0..usize::try_from(libc::CPU_SETSIZE).ok()?;
    // SAFETY: the number is below the count of bits.
    Some(all.filter(|&processor| unsafe { libc::CPU_ISSET(processor, &set) }).collect())
}

/// Keeps this thread on a processor. A system that does not let it changes nothing: the thread runs where it may.
#[cfg(target_os = "linux")]
pub fn stay_on(processor: usize) {
    // SAFETY: as above; `processor` is one of `allowed`, which are below the count of bits.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

#[cfg(not(target_os = "linux"))]
fn allowed() -> Option<Vec<usize>> {
    None
}

#[cfg(not(target_os = "linux"))]
pub fn stay_on(_: usize) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::runtime::host::{Host, HostOptions};

    fn places(threads: usize) -> Vec<Vec<usize>> {
        let host = Host::new(HostOptions { threads: Some(threads), ..HostOptions::default() }).unwrap();
        host.0.workers.as_ref().unwrap().broadcast(|_| allowed().unwrap())
    }

    #[test]
    fn as_many_workers_as_processors_have_one_each() {
        let all = allowed().unwrap();
        if all.len() > 1 {
            let own: Vec<_> = all.iter().map(|&processor| vec![processor]).collect();
            assert_eq!(places(all.len()), own);
        }
        // More workers than processors run anywhere.
        assert!(places(all.len() + 1).iter().all(|place| *place == all));
        assert_eq!(allowed().unwrap(), all, "the caller's own place has changed");
    }
}
