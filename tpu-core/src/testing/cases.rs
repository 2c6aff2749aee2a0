//! How many cases a random test tries.

/// The factor between a long sweep and a usual run.
const LONGER: u32 = 20;

/// `usual` cases, or twenty times as many in a long sweep: when `TPU_TEST_FULL` is 1, as `cargo xtask test --full` sets it.
///
/// ```
/// let cases = tpu_core::testing::cases(500);
/// assert!(cases == 500 || cases == 10_000);
/// ```
pub fn cases(usual: u32) -> u32 {
    let full = std::env::var_os("TPU_TEST_FULL").is_some_and(|value| value == "1");
    if full { usual * LONGER } else { usual }
}
