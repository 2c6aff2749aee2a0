//! Devices.

/// A device that tensors live on.
#[derive(Clone, Debug)]
pub struct Device(());
