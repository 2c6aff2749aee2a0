//! tpu-autograd
