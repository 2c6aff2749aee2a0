//! tpu-torch-compat
