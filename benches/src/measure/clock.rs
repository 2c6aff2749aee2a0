//! Time by the wall and by the processors.

use std::time::Instant;

/// A moment.
#[derive(Debug)]
pub struct Clock {
    wall: Instant,
    processor: f64,
}

impl Clock {
    /// Now.
    pub fn start() -> Self {
        Self { wall: Instant::now(), processor: processor_seconds() }
    }

    /// Milliseconds since then: by the wall, and of all threads of this process together.
    pub fn milliseconds(&self) -> (f64, f64) {
        (self.wall.elapsed().as_secs_f64() * 1e3, (processor_seconds() - self.processor) * 1e3)
    }
}

/// Seconds that the threads of this process have computed.
#[cfg(unix)]
fn processor_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes a timespec where the pointer points, which is one that lives on.
    let code = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    if code == 0 { time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9 } else { 0.0 }
}

#[cfg(not(unix))]
fn processor_seconds() -> f64 {
    0.0
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn sleeping_takes_time_but_no_processor() {
        let clock = Clock::start();
        std::thread::sleep(std::time::Duration::from_millis(30));
        let (wall, processor) = clock.milliseconds();
        // Other tests of this process may compute meanwhile, on as many threads as there are tests.
        assert!(wall >= 30.0 && processor >= 0.0, "{wall} {processor}");
    }
}
