//! tpu-ops
