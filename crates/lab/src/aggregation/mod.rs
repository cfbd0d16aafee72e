//! The evaluation of MAC aggregation by Wagner et al., repeated with our engine.
//!
//! - [`sweep`]: every payload length over a good and a bad radio channel;
//! - [`static_scenarios`]: three scenarios at a fixed loss rate, over sockets;
//! - [`delays`]: how soon messages reach a level of security;
//! - [`robot`]: a sender that moves, whose tag parameters adapt to the loss rate;
//! - [`energy`]: the energy that packets cost a radio.

pub mod delays;
pub mod energy;
pub mod robot;
pub mod static_scenarios;
pub mod sweep;

use ::lightseal_aggregation::choice::Family;
use lightseal_dtls::Scheme;

/// The nine schemes that Wagner et al. compare, plain tags first.
pub fn schemes() -> [Scheme; 9] {
    let [a16, a8, a4, a2, plain] = Family::Agg.members();
    let [r50, r100, r150, r200, _] = Family::R2d2.members();
    [plain, a2, a4, a8, a16, r50, r100, r150, r200]
}

/// A scheme's name as the paper writes it. One tag for each record, which the paper calls Trad, has
/// a name of our own.
pub fn title(scheme: Scheme) -> String {
    match scheme {
        Scheme::Plain => "plain tags".into(),
        Scheme::Agg(n) => format!("Agg({})", n.get()),
        Scheme::R2d2(o) => format!("R2D2(8, {})", o.percent()),
        other => other.to_string(),
    }
}
