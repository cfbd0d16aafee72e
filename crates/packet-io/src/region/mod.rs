//! The memory of a pool.

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod pages;

#[cfg(target_os = "linux")]
pub(crate) use pages::Region;

/// Ordinary memory, on systems where the kernel does not share it.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(crate) struct Region(Vec<u8>);

#[cfg(not(target_os = "linux"))]
impl Region {
    pub(crate) fn new(len: usize) -> std::io::Result<Self> {
        Ok(Self(vec![0; len]))
    }

    pub(crate) fn slice(&self, range: std::ops::Range<usize>) -> &[u8] {
        &self.0[range]
    }

    pub(crate) fn slice_mut(&mut self, range: std::ops::Range<usize>) -> &mut [u8] {
        &mut self.0[range]
    }

    pub(crate) fn copy_within(&mut self, from: std::ops::Range<usize>, to: usize) {
        self.0.copy_within(from, to);
    }
}
