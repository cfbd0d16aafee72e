//! Currents and clock rates of devices.

use super::{Activity, Cpu, ResourceUse, Timeslot};
use serde::{Deserialize, Serialize};

/// How much current a device draws, and how fast it computes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// What the device is.
    pub about: String,
    /// The publications that the figures come from.
    pub sources: Vec<String>,
    /// The supply voltage, in V.
    pub volts: f64,
    /// The energy that its battery holds, in J.
    pub battery_joules: Option<f64>,
    /// The currents it draws.
    pub milliamperes: Currents,
    /// The speed of its processor.
    pub cpu: Cpu,
    /// Charges by kind of timeslot. In TSCH they are used instead of the radio's currents.
    pub slot_microcoulombs: Option<SlotCharges>,
}

/// The currents that a device draws, in mA.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Currents {
    /// Current while the radio sends.
    pub send: f64,
    /// Current while the radio listens or receives.
    pub listen: f64,
    /// Current while the processor computes.
    pub compute: f64,
}

/// The charges of timeslots of TSCH, in µC.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotCharges {
    /// The node listened and nobody sent.
    pub idle_listen: f64,
    /// A frame was sent and acknowledged.
    pub send_acknowledged: f64,
    /// A frame was sent and not acknowledged.
    pub send_unacknowledged: f64,
    /// A frame was received and acknowledged.
    pub receive_acknowledge: f64,
    /// A frame, or noise, was received and not acknowledged.
    pub receive_only: f64,
}

/// The devices known by name, with the contents of their files.
pub const DEVICES: &[(&str, &str)] = &[
    ("wismote", include_str!("../../devices/wismote.toml")),
    ("greennet", include_str!("../../devices/greennet.toml")),
    ("cc2538", include_str!("../../devices/cc2538.toml")),
    ("cc2538-contiki", include_str!("../../devices/cc2538-contiki.toml")),
    ("re-mote", include_str!("../../devices/re-mote.toml")),
];

impl Device {
    /// Reads a device file.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the file, and on which line.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The known device with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        let (_, text) = DEVICES.iter().find(|(known, _)| *known == name)?;
        Self::parse(text).ok()
    }

    /// The first of the figures that is invalid, if there is one.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let Currents { send, listen, compute } = self.milliamperes;
        let Cpu { megahertz, datagram_cycles, cipher_block_cycles, .. } = self.cpu;
        let Cpu { hash_block_cycles, exchange_cycles, .. } = self.cpu;
        let charges = self.slot_microcoulombs.as_ref().map_or([0.0; 5], |charges| {
            let SlotCharges { idle_listen, send_acknowledged, send_unacknowledged, .. } = *charges;
            let SlotCharges { receive_acknowledge, receive_only, .. } = *charges;
            [idle_listen, send_acknowledged, send_unacknowledged, receive_acknowledge, receive_only]
        });
        let figures = [
            ("volts", self.volts),
            ("battery_joules", self.battery_joules.unwrap_or(0.0)),
            ("milliamperes.send", send),
            ("milliamperes.listen", listen),
            ("milliamperes.compute", compute),
            ("cpu.datagram_cycles", datagram_cycles),
            ("cpu.cipher_block_cycles", cipher_block_cycles),
            ("cpu.hash_block_cycles", hash_block_cycles),
            ("cpu.exchange_cycles", exchange_cycles),
            ("slot_microcoulombs.idle_listen", charges[0]),
            ("slot_microcoulombs.send_acknowledged", charges[1]),
            ("slot_microcoulombs.send_unacknowledged", charges[2]),
            ("slot_microcoulombs.receive_acknowledge", charges[3]),
            ("slot_microcoulombs.receive_only", charges[4]),
        ];
        let wrong = figures.into_iter().find(|(_, figure)| !(0.0..=1e9).contains(figure));
        // With a slower clock than this, a computation would take days.
        let stopped = !(1e-3..=1e9).contains(&megahertz);
        wrong.map(|(field, _)| field).or(stopped.then_some("cpu.megahertz"))
    }

    /// The energy of what was spent, in mJ.
    pub fn millijoules(&self, spent: &ResourceUse) -> f64 {
        let Currents { send, listen, compute } = self.milliamperes;
        let by_slot = self.slot_microcoulombs.as_ref().filter(|_| spent.slots != [0; 5]);
        // In nC: the product of microseconds and mA.
        let radio = match by_slot {
            Some(charges) => 1e3 * charges.sum(&spent.slots),
            None => {
                spent.of(Activity::Send) as f64 * send + spent.of(Activity::Listen) as f64 * listen
            }
        };
        (radio + spent.of(Activity::Compute) as f64 * compute) * self.volts / 1e6
    }
}

impl SlotCharges {
    fn sum(&self, slots: &[u64; 5]) -> f64 {
        [
            (Timeslot::IdleListen, self.idle_listen),
            (Timeslot::SendAcknowledged, self.send_acknowledged),
            (Timeslot::SendUnacknowledged, self.send_unacknowledged),
            (Timeslot::ReceiveAcknowledge, self.receive_acknowledge),
            (Timeslot::ReceiveOnly, self.receive_only),
        ]
        .into_iter()
        .map(|(slot, charge)| slots[slot as usize] as f64 * charge)
        .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::Computation;

    fn device(name: &str) -> Device {
        Device::by_name(name).expect("a device file that can be read")
    }

    #[test]
    fn every_device_is_known_with_its_sources() {
        for (name, _) in DEVICES {
            assert!(!device(name).sources.is_empty());
        }
    }

    #[test]
    fn a_second_of_listening_costs_what_the_data_sheet_says() {
        let spent = ResourceUse { micros: [0, 1_000_000, 0], ..ResourceUse::default() };
        assert!((device("wismote").millijoules(&spent) - 51.8).abs() < 1e-9);
    }

    #[test]
    fn slots_count_where_their_charges_are_known() {
        let spent = ResourceUse {
            micros: [1_000_000, 0, 0],
            slots: [0, 2, 0, 0, 1],
            ..ResourceUse::default()
        };
        assert!((device("cc2538").millijoules(&spent) - (2.0 * 54.5 + 22.6) * 3e-3).abs() < 1e-9);
        assert!((device("wismote").millijoules(&spent) - 25.8 * 2.8).abs() < 1e-9);
    }

    #[test]
    fn an_exchange_takes_as_long_as_was_measured() {
        let work = Computation { curve_multiplications: 1, ..Computation::default() };
        assert_eq!(device("wismote").cpu.micros(work), 441_816);
    }
}
