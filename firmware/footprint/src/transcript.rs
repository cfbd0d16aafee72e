//! The datagrams of an association or of a group, in a file of the emulator's host: for each its
//! direction, its length in two bytes (little-endian), and its bytes.

use crate::machine::{File, fail};

const NAME: &[u8] = b"transcript\0";

/// The longest datagram in bytes.
pub const LONGEST: usize = 1500;

/// What a transcript tells next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A datagram of the client.
    FromClient = b'>' as isize,
    /// A datagram of the server.
    FromServer = b'<' as isize,
    /// The handshake is complete, and each end seals a payload.
    Round = b'r' as isize,
}

impl Kind {
    fn read(byte: u8) -> Option<Self> {
        match byte {
            b'>' => Some(Self::FromClient),
            b'<' => Some(Self::FromServer),
            b'r' => Some(Self::Round),
            _ => None,
        }
    }
}

/// A transcript that is being written.
pub struct Writer(File);

impl Writer {
    /// A new transcript of an association.
    pub fn new() -> Self {
        Self::named(NAME)
    }

    /// A new transcript with this file name, which ends with a zero byte.
    pub fn named(name: &[u8]) -> Self {
        Self(File::create(name).unwrap_or_else(|| fail("the transcript cannot be made")))
    }

    /// Appends an entry.
    pub fn push(&mut self, kind: Kind, datagram: &[u8]) {
        let length = (datagram.len() as u16).to_le_bytes();
        self.0.write(&[kind as u8, length[0], length[1]]);
        self.0.write(datagram);
    }
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

/// A transcript that is being read.
pub struct Reader {
    file: File,
    buffer: [u8; LONGEST],
}

impl Reader {
    /// The transcript of an association that another image has written.
    pub fn open() -> Self {
        Self::named(NAME)
    }

    /// The transcript with this file name, which ends with a zero byte.
    pub fn named(name: &[u8]) -> Self {
        let file = File::open(name).unwrap_or_else(|| fail("there is no transcript"));
        Self { file, buffer: [0; LONGEST] }
    }

    /// Continues with the first entry.
    pub fn rewind(&mut self) {
        self.file.rewind();
    }

    /// The next entry; `None` at the end.
    pub fn next_entry(&mut self) -> Option<(Kind, &mut [u8])> {
        let mut head = [0; 3];
        if !self.file.read(&mut head) {
            return None;
        }
        let kind = Kind::read(head[0])?;
        let length = u16::from_le_bytes([head[1], head[2]]);
        let bytes = self.buffer.get_mut(..usize::from(length))?;
        (bytes.is_empty() || self.file.read(bytes)).then_some((kind, bytes))
    }
}
