//! Random numbers from a device, without a generator of our own.

/// The function that reads the device's random numbers.
pub(super) struct Device(fn(&mut [u8]));

impl Device {
    pub(super) const fn from_device(fill: fn(&mut [u8])) -> Self {
        Self(fill)
    }

    pub(super) const fn fork(&self) -> Self {
        Self(self.0)
    }

    pub(super) fn table_keys(&self, keys: &mut [u8]) {
        (self.0)(keys);
    }

    pub(super) fn fill(&self, out: &mut [u8]) {
        (self.0)(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU8, Ordering};

    #[test]
    fn all_output_comes_from_the_device() {
        static NEXT: AtomicU8 = AtomicU8::new(0);
        let device = Device::from_device(|out| {
            out.fill_with(|| NEXT.fetch_add(1, Ordering::Relaxed));
        });
        let mut out = [[0; 4]; 3];
        device.fill(&mut out[0]);
        device.table_keys(&mut out[1]);
        device.fork().fill(&mut out[2]);
        assert_eq!(out, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]);
    }
}
