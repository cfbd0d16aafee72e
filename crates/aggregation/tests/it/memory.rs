//! The sizes of the opener and the sealer, against the documented ones.

use lightseal_aggregation::{Opener, Sealer};

#[test]
fn memory_is_as_documented() {
    let small = size_of::<Opener<32>>();
    assert!(size_of::<Opener>() <= 20 * 1024, "{}", size_of::<Opener>());
    assert!(size_of::<Opener>() - small <= 160 * 49, "{small}");
    assert!(size_of::<Sealer>() <= if cfg!(feature = "fast") { 4096 } else { 1100 });
    if !cfg!(feature = "fast") {
        // Pointers and alignment of a processor of 64 bits.
        let wider = if cfg!(target_pointer_width = "64") { 32 } else { 0 };
        let opener = size_of::<Opener<64, 32, 112>>();
        assert!(opener <= 5544 + wider, "{opener}");
        if !cfg!(feature = "r2d2-receiver") {
            let opener = size_of::<Opener<16, 32>>();
            assert!(opener <= 768, "{opener}");
        }
    }
}
