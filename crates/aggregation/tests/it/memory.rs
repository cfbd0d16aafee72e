//! The sizes of the opener and the sealer, against the documented ones.

use lightseal_aggregation::{Opener, Sealer};

#[test]
fn memory_is_as_documented() {
    let small = size_of::<Opener<32>>();
    assert!(size_of::<Opener>() <= 20 * 1024, "{}", size_of::<Opener>());
    assert!(size_of::<Opener>() - small <= 160 * 49, "{small}");
    assert!(size_of::<Sealer>() <= if cfg!(feature = "fast") { 4096 } else { 1100 });
    if !cfg!(feature = "fast") {
        assert!(size_of::<Opener<64, 32, 112>>() <= 7500, "{}", size_of::<Opener<64, 32, 112>>());
    }
}
