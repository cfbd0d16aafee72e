//! Channels, which decide which frames arrive intact.
//!
//! - [`ChannelModel`]: how a channel loses frames, as scenario files write it;
//! - [`Channels`]: the channels of all links of a world, and whether acknowledgements can be lost
//!   as well.
//!
//! # A new channel
//!
//! Add a variant to [`ChannelModel`] and its behaviour to [`ChannelModel::arrives`].

use crate::tagged;
use crate::topology::NodeId;
use lightseal_core::{Random, math};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a channel loses frames. Scenario files write it as one table, with the model's name as
/// `model`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "Model", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(tag = "model")]
pub enum ChannelModel {
    /// Frames are lost independently of each other.
    Bernoulli {
        /// The packet delivery ratio: the share of frames that arrive, from 0 to 1.
        delivery: f64,
    },
    /// Two states: in the good one every frame arrives, in the bad one some are lost.
    GilbertElliott {
        /// The share of frames lost in the long run, from 0 to 1.
        loss: f64,
        /// The mean duration of the bad state, in frames; at least 1.
        burst: f64,
        /// The share of frames lost in the bad state; more than `loss`, and at most 1.
        #[serde(default = "one")]
        depth: f64,
    },
    /// Bytes are corrupted independently of each other, and long frames are lost more often.
    BitErrors {
        /// The share of frames lost whatever their length, from 0 to 1.
        #[serde(default)]
        floor: f64,
        /// The share of bytes that arrive corrupted, from 0 to 1.
        byte_errors: f64,
    },
    /// A recorded trace of a real link, frame after frame, repeated endlessly from a random
    /// position.
    Trace {
        /// `1` for each frame that arrived and `0` for each that was lost; white space is ignored.
        frames: String,
    },
}

const fn one() -> f64 {
    1.0
}

/// The state that a channel keeps from one frame to the next.
#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Fresh,
    Good,
    Bad,
    At(usize),
}

impl ChannelModel {
    /// A channel on which every frame arrives.
    pub const PERFECT: Self = Self::Bernoulli { delivery: 1.0 };

    /// Parses a channel such as `bernoulli,delivery=0.9`.
    ///
    /// # Errors
    ///
    /// A description of the error in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let model: Self = tagged::parse(text)?;
        match model.fault() {
            Some((field, reason)) => Err(format!("{field}: {reason}")),
            None => Ok(model),
        }
    }

    /// Why the channel's parameters are invalid, if they are: the field and what is wrong with it.
    pub fn fault(&self) -> Option<(&'static str, &'static str)> {
        let share = |value: f64| (0.0..=1.0).contains(&value);
        match self {
            Self::Bernoulli { delivery } if !share(*delivery) => {
                Some(("delivery", "must be from 0 to 1"))
            }
            Self::GilbertElliott { loss, .. } if !(0.0..1.0).contains(loss) => {
                Some(("loss", "must be at least 0 and less than 1"))
            }
            Self::GilbertElliott { burst, .. } if !(1.0..=1e9).contains(burst) => {
                Some(("burst", "must be at least 1"))
            }
            Self::GilbertElliott { loss, depth, .. } if depth <= loss || *depth > 1.0 => {
                Some(("depth", "must be more than the loss, and at most 1"))
            }
            Self::BitErrors { floor, .. } if !share(*floor) => {
                Some(("floor", "must be from 0 to 1"))
            }
            Self::BitErrors { byte_errors, .. } if !share(*byte_errors) => {
                Some(("byte_errors", "must be from 0 to 1"))
            }
            Self::Trace { frames } if trace(frames).next().is_none() => {
                Some(("frames", "must have a 0 or a 1"))
            }
            Self::Trace { frames } if frames.bytes().any(|byte| !is_traced(byte)) => {
                Some(("frames", "must consist of 0, 1 and white space"))
            }
            _ => None,
        }
    }

    /// A copy of the model ready for use: a trace without white space.
    fn prepared(&self) -> Self {
        match self {
            Self::Trace { frames } => {
                Self::Trace { frames: trace(frames).map(char::from).collect() }
            }
            other => other.clone(),
        }
    }

    /// Whether a frame of this many bytes arrives.
    fn arrives(&self, state: &mut State, random: &mut Random, bytes: usize) -> bool {
        match self {
            Self::Bernoulli { delivery } => happens(random, *delivery),
            Self::GilbertElliott { loss, burst, depth } => {
                // In the long run the channel spends a share of loss / depth in the bad state.
                let bad = loss / depth;
                let is_bad = match state {
                    State::Bad => !happens(random, 1.0 / burst),
                    State::Good => happens(random, bad / (1.0 - bad) / burst),
                    _ => happens(random, bad),
                };
                *state = if is_bad { State::Bad } else { State::Good };
                !(is_bad && happens(random, *depth))
            }
            Self::BitErrors { floor, byte_errors } => {
                happens(random, (1.0 - floor) * math::powi(1.0 - byte_errors, bytes as i32))
            }
            Self::Trace { frames } => {
                let at = match state {
                    State::At(at) => *at,
                    _ => random.below(frames.len() as u64) as usize,
                };
                *state = State::At((at + 1) % frames.len().max(1));
                frames.as_bytes().get(at) == Some(&b'1')
            }
        }
    }
}

fn is_traced(byte: u8) -> bool {
    matches!(byte, b'0' | b'1') || byte.is_ascii_whitespace()
}

fn trace(frames: &str) -> impl Iterator<Item = u8> {
    frames.bytes().filter(|byte| matches!(byte, b'0' | b'1'))
}

/// A random number from 0 to 1.
fn unit(random: &mut Random) -> f64 {
    random.below(1 << 53) as f64 / (1u64 << 53) as f64
}

/// Whether an event of this probability happens.
fn happens(random: &mut Random, probability: f64) -> bool {
    probability >= 1.0 || unit(random) < probability
}

/// A link whose channel differs from that of the other links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "Rule", rename_all = "kebab-case", deny_unknown_fields)]
pub struct LinkChannel {
    /// The node that sends.
    pub from: u16,
    /// The node that receives.
    pub to: u16,
    /// The channel from the sender to the receiver.
    pub channel: ChannelModel,
}

/// The channels of all links. Each link has a state of its own.
#[derive(Clone, Debug)]
pub struct Channels {
    model: ChannelModel,
    rules: BTreeMap<(NodeId, NodeId), ChannelModel>,
    acknowledgements: bool,
    states: BTreeMap<(NodeId, NodeId), State>,
}

impl Channels {
    /// Gives all links the channel of `model`, except those that `rules` names. If
    /// `acknowledgements` is set, acknowledgements are lost as frames of their length are;
    /// otherwise they all arrive.
    pub fn new(model: &ChannelModel, rules: &[LinkChannel], acknowledgements: bool) -> Self {
        let rules = rules
            .iter()
            .map(|rule| ((NodeId(rule.from), NodeId(rule.to)), rule.channel.prepared()))
            .collect();
        Self { model: model.prepared(), rules, acknowledgements, states: BTreeMap::new() }
    }

    /// Channels on which everything arrives.
    pub fn perfect() -> Self {
        Self::new(&ChannelModel::PERFECT, &[], true)
    }

    /// Whether a frame of this many bytes arrives.
    pub fn frame(&mut self, random: &mut Random, from: NodeId, to: NodeId, bytes: usize) -> bool {
        let model = self.rules.get(&(from, to)).unwrap_or(&self.model);
        match model {
            ChannelModel::Bernoulli { .. } | ChannelModel::BitErrors { .. } => {
                model.arrives(&mut State::Fresh, random, bytes)
            }
            _ => model.arrives(self.states.entry((from, to)).or_default(), random, bytes),
        }
    }

    /// Whether an acknowledgement of this many bytes arrives.
    pub fn acknowledgement(
        &mut self,
        random: &mut Random,
        from: NodeId,
        to: NodeId,
        bytes: usize,
    ) -> bool {
        !self.acknowledgements || self.frame(random, from, to, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: usize = 40_000;

    /// The share of frames that arrive, and the mean length of runs of losses.
    fn measure(model: ChannelModel, bytes: usize) -> (f64, f64) {
        assert_eq!(model.fault(), None);
        let mut channels = Channels::new(&model, &[], false);
        let mut random = Random::insecure(7);
        let mut arrives = || channels.frame(&mut random, NodeId(0), NodeId(1), bytes);
        let came: Vec<bool> = (0..FRAMES).map(|_| arrives()).collect();
        let lost = came.iter().filter(|came| !**came).count();
        let bursts = came.windows(2).filter(|two| two[0] && !two[1]).count().max(1);
        (1.0 - lost as f64 / FRAMES as f64, lost as f64 / bursts as f64)
    }

    #[test]
    fn losses_are_as_often_as_the_model_says() {
        let (share, burst) = measure(ChannelModel::Bernoulli { delivery: 0.9 }, 100);
        assert!((share - 0.9).abs() < 0.01 && (burst - 1.0 / 0.9).abs() < 0.05, "{share} {burst}");
        let model = ChannelModel::GilbertElliott { loss: 0.1, burst: 5.0, depth: 1.0 };
        let (share, burst) = measure(model, 100);
        assert!((share - 0.9).abs() < 0.015 && (burst - 5.0).abs() < 0.4, "{share} {burst}");
        let model = ChannelModel::GilbertElliott { loss: 0.1, burst: 5.0, depth: 0.5 };
        assert!((measure(model, 100).0 - 0.9).abs() < 0.015);
        let model = || ChannelModel::BitErrors { floor: 0.01, byte_errors: 0.001 };
        for bytes in [10, 100] {
            let expected = 0.99 * math::powi(0.999, bytes as i32);
            assert!((measure(model(), bytes).0 - expected).abs() < 0.01);
        }
        let (share, burst) = measure(ChannelModel::Trace { frames: "1110 0111 11".into() }, 1);
        assert!((share - 0.8).abs() < 0.001 && (burst - 2.0).abs() < 0.001);
    }

    #[test]
    fn channels_are_read_from_a_line() {
        let parsed = ChannelModel::parse("gilbert-elliott,loss=0.1,burst=2");
        assert_eq!(parsed, Ok(ChannelModel::GilbertElliott { loss: 0.1, burst: 2.0, depth: 1.0 }));
        for wrong in ["", "bernoulli", "bernoulli,delivery=2", "bernoulli,delivery=1,burst=2"] {
            assert!(ChannelModel::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rules_are_of_one_direction() {
        let rule =
            LinkChannel { from: 0, to: 1, channel: ChannelModel::Bernoulli { delivery: 0.0 } };
        let mut channels = Channels::new(&ChannelModel::PERFECT, &[rule], true);
        let mut random = Random::insecure(1);
        assert!(!channels.frame(&mut random, NodeId(0), NodeId(1), 10));
        assert!(channels.frame(&mut random, NodeId(1), NodeId(0), 10));
        assert!(!channels.acknowledgement(&mut random, NodeId(0), NodeId(1), 5));
    }

    #[test]
    fn what_cannot_be_is_named() {
        let wrong = [
            ChannelModel::Bernoulli { delivery: 1.1 },
            ChannelModel::Bernoulli { delivery: f64::NAN },
            ChannelModel::GilbertElliott { loss: 0.5, burst: 2.0, depth: 0.4 },
            ChannelModel::GilbertElliott { loss: 0.1, burst: 0.5, depth: 1.0 },
            ChannelModel::BitErrors { floor: 0.0, byte_errors: -0.1 },
            ChannelModel::Trace { frames: "12".into() },
            ChannelModel::Trace { frames: " ".into() },
        ];
        assert!(wrong.iter().all(|model| model.fault().is_some()));
    }
}
