//! Resident memory of this process, as the kernel counts it (Linux; elsewhere nothing is known).

/// How far the peak of resident memory rises above what was resident at the start.
#[derive(Debug)]
pub struct Peak {
    start: u64,
}

impl Peak {
    /// Sets the kernel's peak back to what is resident now.
    pub fn start() -> Self {
        // If the kernel does not let us, the peak so far counts as the start.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        Self { start: status("VmHWM:") }
    }

    /// Bytes by which the peak has grown.
    pub fn growth(&self) -> u64 {
        status("VmHWM:").saturating_sub(self.start)
    }
}

/// A line of the process's status, in bytes.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn touching_memory_raises_the_peak() {
        let peak = Peak::start();
        let touched = vec![1u8; 64 << 20];
        assert!(std::hint::black_box(&touched).iter().all(|&byte| byte == 1));
        assert!(peak.growth() >= 60 << 20);
    }
}
