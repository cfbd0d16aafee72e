//! All integration tests of `lightseal-macsec`, in one program that is linked once.

mod secy;
mod vectors;
