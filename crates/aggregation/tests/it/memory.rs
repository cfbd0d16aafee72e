//! The sizes of the opener and the sealer, against the documented ones.

use lightseal_aggregation::{Opener, Sealer};

#[test]
fn memory_is_as_documented() {
    let small = size_of::<Opener<32>>();
    assert!(small - 32 * 66 <= 13 * 1024, "{small}");
    assert!(size_of::<Opener>() - small <= 160 * 66, "{}", size_of::<Opener>());
    assert!(size_of::<Sealer>() <= 4 * 1024, "{}", size_of::<Sealer>());
}
