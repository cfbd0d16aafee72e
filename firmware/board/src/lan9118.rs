//! The driver of the Ethernet controller LAN9118 (SMSC, datasheet "LAN9118", revision 1.5).
//!
//! Frames pass through two FIFOs of 32-bit words in the controller, with a FIFO of status words
//! beside each. The processor copies words; there are no descriptors and no DMA. The driver polls.

use core::fmt;

/// Where the board has the controller (Arm AN385, table 3-1).
const BASE: usize = 0x4020_0000;

/// The longest Ethernet frame in bytes, without its frame check sequence.
pub const FRAME_BYTES: usize = 1514;

/// The bytes of the frame check sequence, which the controller gives out behind a received frame.
const CHECK_BYTES: usize = 4;

/// How often the driver looks at a register that is about to change.
const PATIENCE: u32 = 1_000_000;

/// The offset of a register (datasheet, section 5.3).
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
enum Register {
    /// RX_DATA: the next word of received frames.
    RxData = 0x00,
    /// TX_DATA: takes commands and words of frames to send.
    TxData = 0x20,
    /// RX_STATUS: the status word of the next received frame.
    RxStatus = 0x40,
    /// TX_STATUS: the status word of a frame that was sent.
    TxStatus = 0x48,
    /// ID_REV: the chip and its revision.
    IdRev = 0x50,
    /// BYTE_TEST: a constant, once the controller is awake and byte order is right.
    ByteTest = 0x64,
    /// TX_CFG: transmission on and off.
    TxCfg = 0x70,
    /// HW_CFG: reset.
    HwCfg = 0x74,
    /// RX_FIFO_INF: the words in the FIFOs of received frames.
    RxFifoInf = 0x7c,
    /// TX_FIFO_INF: the room in the FIFO of frames to send, and the number of status words.
    TxFifoInf = 0x80,
    /// MAC_CSR_CMD: reads or writes a register of the MAC.
    MacCsrCmd = 0xa4,
    /// MAC_CSR_DATA: what was read or is to be written.
    MacCsrData = 0xa8,
}

/// The index of a register of the MAC (datasheet, section 5.4).
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
enum MacRegister {
    /// MAC_CR: control.
    Control = 1,
    /// ADDRH: the last two bytes of the MAC address.
    AddressHigh = 2,
    /// ADDRL: its first four bytes, the first one in the lowest bits.
    AddressLow = 3,
    /// HASHH: the upper half of the table of multicast addresses.
    HashHigh = 4,
    /// HASHL: its lower half.
    HashLow = 5,
}

/// What BYTE_TEST reads.
const BYTE_TEST: u32 = 0x8765_4321;
/// The chip in ID_REV: the LAN9118.
const CHIP: u32 = 0x0118;
/// HW_CFG: a reset by software.
const SOFT_RESET: u32 = 1;
/// HW_CFG: a bit that must be one.
const MUST_BE_ONE: u32 = 1 << 20;
/// TX_CFG: transmission is on.
const TX_ON: u32 = 1 << 1;
/// TX_CFG: status words are dropped when their FIFO is full.
const STATUS_MAY_OVERFLOW: u32 = 1 << 2;
/// MAC_CSR_CMD: an access is under way.
const MAC_BUSY: u32 = 1 << 31;
/// MAC_CSR_CMD: the access reads.
const MAC_READ: u32 = 1 << 30;
/// MAC_CR: full duplex.
const FULL_DUPLEX: u32 = 1 << 20;
/// MAC_CR: multicast frames are received if the bit of their address is set in HASHH and HASHL, and
/// frames to one station if the address is that of the controller.
const HASH_FILTER: u32 = 1 << 13;
/// MAC_CR: the transmitter and the receiver are on.
const TX_AND_RX: u32 = 1 << 3 | 1 << 2;
/// RX_STATUS: the frame arrived damaged.
const RX_ERROR: u32 = 1 << 15;
/// First command word of a transmission: the buffer is the first and the last one of its frame.
const WHOLE_FRAME: u32 = 1 << 13 | 1 << 12;

/// Why the controller cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// BYTE_TEST reads this.
    ByteOrder(u32),
    /// ID_REV reads this: it is another chip.
    Chip(u32),
    /// A register did not become ready.
    Busy,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByteOrder(read) => write!(f, "BYTE_TEST of the Ethernet controller is {read:#x}"),
            Self::Chip(read) => write!(f, "ID_REV of the Ethernet controller is {read:#x}"),
            Self::Busy => f.write_str("the Ethernet controller does not become ready"),
        }
    }
}

/// The controller.
#[derive(Debug)]
pub struct Lan9118 {
    base: *mut u32,
}

impl Lan9118 {
    /// Resets the controller and switches it on.
    ///
    /// # Errors
    /// There is no such controller, or it does not become ready.
    pub fn start() -> Result<Self, Unusable> {
        let mut controller = Self { base: BASE as *mut u32 };
        let id = controller.read(Register::IdRev);
        if id >> 16 != CHIP {
            return Err(Unusable::Chip(id));
        }
        controller.write(Register::HwCfg, MUST_BE_ONE | SOFT_RESET);
        controller.wait(Register::HwCfg, |value| value & SOFT_RESET == 0)?;
        let test = controller.read(Register::ByteTest);
        if test != BYTE_TEST {
            return Err(Unusable::ByteOrder(test));
        }
        controller.write(Register::TxCfg, TX_ON | STATUS_MAY_OVERFLOW);
        let control = FULL_DUPLEX | HASH_FILTER | TX_AND_RX;
        controller.write_mac(MacRegister::Control, control)?;
        Ok(controller)
    }

    /// The MAC address, which the controller has read from its EEPROM.
    ///
    /// # Errors
    /// The controller does not become ready.
    pub fn address(&mut self) -> Result<[u8; 6], Unusable> {
        let [a, b, c, d] = self.read_mac(MacRegister::AddressLow)?.to_le_bytes();
        let [e, f, ..] = self.read_mac(MacRegister::AddressHigh)?.to_le_bytes();
        Ok([a, b, c, d, e, f])
    }

    /// Receives frames to a multicast address too. The controller's table has 64 places, so that it
    /// lets frames of a few other multicast addresses pass.
    ///
    /// # Errors
    /// The controller does not become ready.
    pub fn listen_to(&mut self, multicast: [u8; 6]) -> Result<(), Unusable> {
        let (place, mask) = hash_place(multicast);
        let table = self.read_mac(place)?;
        self.write_mac(place, table | mask)
    }

    /// Whether a frame has been received.
    pub fn has_frame(&self) -> bool {
        self.read(Register::RxFifoInf) >> 16 & 0xff > 0
    }

    /// Copies the next received frame to `frame` and returns its length in bytes. Damaged frames and
    /// longer ones are dropped.
    pub fn receive(&mut self, frame: &mut [u8; FRAME_BYTES]) -> Option<usize> {
        while self.has_frame() {
            let status = self.read(Register::RxStatus);
            let with_check = (status >> 16 & 0x3fff) as usize;
            let len = with_check.saturating_sub(CHECK_BYTES);
            let mut bytes = frame.chunks_mut(4);
            for _ in 0..with_check.div_ceil(4) {
                let word = self.read(Register::RxData).to_le_bytes();
                if let Some(bytes) = bytes.next() {
                    bytes.iter_mut().zip(word).for_each(|(byte, value)| *byte = value);
                }
            }
            if status & RX_ERROR == 0 && (1..=FRAME_BYTES).contains(&len) {
                return Some(len);
            }
        }
        None
    }

    /// Whether the longest frame can be sent now.
    pub fn has_room(&self) -> bool {
        let commands_and_padding = 12;
        (self.read(Register::TxFifoInf) & 0xffff) as usize >= FRAME_BYTES + commands_and_padding
    }

    /// Sends a frame of at most [`FRAME_BYTES`] bytes. The controller pads short ones.
    pub fn send(&mut self, frame: &[u8]) {
        let len = frame.len().min(FRAME_BYTES);
        let frame = frame.get(..len).unwrap_or_default();
        self.write(Register::TxData, WHOLE_FRAME | len as u32);
        self.write(Register::TxData, len as u32);
        for bytes in frame.chunks(4) {
            let mut word = [0; 4];
            word.iter_mut().zip(bytes).for_each(|(byte, value)| *byte = *value);
            self.write(Register::TxData, u32::from_le_bytes(word));
        }
        while self.read(Register::TxFifoInf) >> 16 & 0xff > 0 {
            let _sent = self.read(Register::TxStatus);
        }
    }

    fn read_mac(&mut self, register: MacRegister) -> Result<u32, Unusable> {
        self.access_mac(MAC_READ | register as u32)?;
        Ok(self.read(Register::MacCsrData))
    }

    fn write_mac(&mut self, register: MacRegister, value: u32) -> Result<(), Unusable> {
        self.write(Register::MacCsrData, value);
        self.access_mac(register as u32)
    }

    fn access_mac(&mut self, command: u32) -> Result<(), Unusable> {
        self.write(Register::MacCsrCmd, MAC_BUSY | command);
        self.wait(Register::MacCsrCmd, |value| value & MAC_BUSY == 0)
    }

    fn wait(&self, register: Register, done: impl Fn(u32) -> bool) -> Result<(), Unusable> {
        let is_done = (0..PATIENCE).any(|_| done(self.read(register)));
        if is_done { Ok(()) } else { Err(Unusable::Busy) }
    }

    fn read(&self, register: Register) -> u32 {
        // SAFETY: the board has the controller at `base`, and each `Register` is the offset of one of
        // its 32-bit registers. Reading a FIFO takes a word from it, which no memory depends on.
        unsafe { self.base.byte_add(register as usize).read_volatile() }
    }

    fn write(&mut self, register: Register, value: u32) {
        // SAFETY: as for `read`. The controller has no access to memory, so that nothing written to
        // it changes any.
        unsafe { self.base.byte_add(register as usize).write_volatile(value) };
    }
}

/// The register and the bit of a multicast address in the controller's table: the upper six bits of
/// its CRC-32 as Ethernet computes it, with the first byte's lowest bit first (section 3.6.1.3).
fn hash_place(address: [u8; 6]) -> (MacRegister, u32) {
    let bits = address.iter().flat_map(|byte| (0..8).map(move |bit| u32::from(byte >> bit & 1)));
    let crc = bits.fold(u32::MAX, |crc, bit| {
        let shifted = crc << 1;
        if crc >> 31 == bit { shifted } else { shifted ^ 0x04c1_1db7 }
    });
    let place = crc >> 26;
    let register = if place & 0x20 == 0 { MacRegister::HashLow } else { MacRegister::HashHigh };
    (register, 1 << (place & 0x1f))
}
