//! The functions of the meter in an image without instruments.

/// Prints nothing.
pub fn value(_: &str, _: usize) {}

/// Runs a step.
pub fn measured<T>(_: &str, step: impl FnOnce() -> T) -> T {
    step()
}
