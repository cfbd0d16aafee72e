//! Both providers compute the same results.

use lightseal_macsec::Unauthentic;
use lightseal_macsec::crypto::rustcrypto;
use proptest::prelude::*;

proptest! {
    #[test]
    fn what_one_seals_the_other_opens(
        key in any::<[u8; 32]>(),
        nonce in any::<[u8; 12]>(),
        aad in prop::collection::vec(any::<u8>(), 0..300),
        text in prop::collection::vec(any::<u8>(), 0..300),
        flip in any::<prop::sample::Index>(),
    ) {
        let half = key.first_chunk().unwrap();
        for (ours, theirs) in [
            ((lightseal_macsec_aws_lc::PROVIDER.aes_128)(half), (rustcrypto::PROVIDER.aes_128)(half)),
            ((lightseal_macsec_aws_lc::PROVIDER.aes_256)(&key), (rustcrypto::PROVIDER.aes_256)(&key)),
        ] {
            let mut sealed = text.clone();
            let tag = ours.seal(&nonce, &aad, &mut sealed);
            let mut again = text.clone();
            prop_assert_eq!(theirs.seal(&nonce, &aad, &mut again), tag);
            prop_assert_eq!(&again, &sealed);
            prop_assert_eq!(theirs.open(&nonce, &aad, &mut again, &tag), Ok(()));
            prop_assert_eq!(&again, &text);

            let mut all = [aad.as_slice(), &sealed, &tag].concat();
            let at = flip.index(all.len());
            all[at] ^= 1;
            let (aad, rest) = all.split_at_mut(aad.len());
            let (sealed, tag) = rest.split_last_chunk_mut::<16>().unwrap();
            prop_assert_eq!(ours.open(&nonce, aad, sealed, tag), Err(Unauthentic));
        }
    }
}
