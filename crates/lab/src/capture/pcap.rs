//! Capture files in the classic pcap format, with timestamps in microseconds or nanoseconds.
//!
//! ```text
//! file  | magic (32) | version (16, 16) | 0 (64) | longest (32) | link type (32) | frames
//! frame | seconds (32) | micro- or nanoseconds (32) | bytes here (32) | bytes on the link (32) | bytes
//! ```
//!
//! The magic number tells the byte order and the unit of timestamps (draft-ietf-opsawg-pcap). Link
//! types are those of www.tcpdump.org/linktypes.html.

use core::fmt;
use lightseal_core::Instant;
use std::io::{self, Read, Write};

const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
/// The first word of a pcapng file, the successor of this format; it is the same in either byte
/// order.
const MAGIC_PCAPNG: u32 = 0x0a0d_0d0a;
const VERSION: [u16; 2] = [2, 4];
/// The largest length of a frame in bytes, which is libpcap's.
const LONGEST: u32 = 262_144;
/// The bits that hold the link type. The bits above describe checksums at the ends of frames.
const LINK_TYPE: u32 = 0x03ff_ffff;
const FILE_HEADER: usize = 24;
const FRAME_HEADER: usize = 16;
const MICROS: u64 = 1_000_000;

/// The link layer of a capture's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// LINKTYPE_ETHERNET.
    Ethernet,
    /// LINKTYPE_RAW: IPv4 or IPv6, told apart by the first half byte.
    Ip,
    /// LINKTYPE_LINUX_SLL, from Linux's device `any`.
    Cooked,
    /// LINKTYPE_IEEE802154_WITHFCS.
    Ieee802154,
    /// LINKTYPE_IPV4.
    Ipv4,
    /// LINKTYPE_IPV6.
    Ipv6,
    /// LINKTYPE_IEEE802154_NOFCS.
    Ieee802154WithoutFcs,
    /// LINKTYPE_LINUX_SLL2.
    Cooked2,
}

impl LinkType {
    const ALL: [Self; 8] = [
        Self::Ethernet,
        Self::Ip,
        Self::Cooked,
        Self::Ieee802154,
        Self::Ipv4,
        Self::Ipv6,
        Self::Ieee802154WithoutFcs,
        Self::Cooked2,
    ];

    /// The link type's number in the registry.
    pub const fn number(self) -> u32 {
        match self {
            Self::Ethernet => 1,
            Self::Ip => 101,
            Self::Cooked => 113,
            Self::Ieee802154 => 195,
            Self::Ipv4 => 228,
            Self::Ipv6 => 229,
            Self::Ieee802154WithoutFcs => 230,
            Self::Cooked2 => 276,
        }
    }

    fn numbered(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|link| link.number() == number)
    }
}

/// Writes a capture file in little endian, with timestamps in microseconds.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Begins a file of frames of link type `link`.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub fn new(mut out: W, link: LinkType) -> io::Result<Self> {
        let mut header = Vec::with_capacity(FILE_HEADER);
        header.extend(MAGIC_MICROS.to_le_bytes());
        header.extend(VERSION.iter().flat_map(|part| part.to_le_bytes()));
        header.extend([0; 8]);
        header.extend(LONGEST.to_le_bytes());
        header.extend(link.number().to_le_bytes());
        out.write_all(&header)?;
        Ok(Self { out })
    }

    /// Writes a frame.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written, when the frame is longer than 262 144 bytes, or when
    /// `at` is more than 136 years after the beginning.
    pub fn write(&mut self, at: Instant, frame: &[u8]) -> io::Result<()> {
        let too_long = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        let seconds = u32::try_from(at.as_micros() / MICROS);
        let seconds = seconds.map_err(|_| too_long("a time that a pcap timestamp cannot hold"))?;
        let len = u32::try_from(frame.len()).ok().filter(|len| *len <= LONGEST);
        let len = len.ok_or_else(|| too_long("a frame longer than pcap allows"))?;
        let micros = (at.as_micros() % MICROS) as u32;
        let header = [seconds, micros, len, len].map(u32::to_le_bytes);
        self.out.write_all(header.as_flattened())?;
        self.out.write_all(frame)
    }

    /// Flushes the output and returns it.
    ///
    /// # Errors
    ///
    /// Fails when flushing does.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Why a capture cannot be read.
#[derive(Debug)]
pub enum Error {
    /// Reading the file failed.
    Io(io::Error),
    /// The file does not begin with a pcap header.
    NotPcap,
    /// The file is in pcapng, the successor of this format.
    Pcapng,
    /// The frames have a link type that is not supported.
    LinkType(u32),
    /// The file ends within this frame, counted from 1 on.
    Truncated(u64),
    /// The frame of this number is longer than the limit.
    TooLong(u64),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NotPcap => f.write_str("not a pcap file"),
            Self::Pcapng => {
                f.write_str("a pcapng file: make a pcap of it with editcap -F pcap FILE OUT")
            }
            Self::LinkType(number) => write!(f, "frames of link type {number} cannot be read"),
            Self::Truncated(frame) => write!(f, "the file ends within frame {frame}"),
            Self::TooLong(frame) => write!(f, "frame {frame} is longer than {LONGEST} bytes"),
        }
    }
}

impl std::error::Error for Error {}

/// A frame of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// When the frame was captured: in the simulated world's time, or since 1970.
    pub at: Instant,
    /// The part of the frame that was captured.
    pub bytes: &'a [u8],
}

/// Reads a capture file, one frame at a time.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    link: LinkType,
    big_endian: bool,
    /// Units of a fractional timestamp in a microsecond: 1 or 1000.
    parts_per_micro: u32,
    frames: u64,
    frame: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Reads the file's header.
    ///
    /// # Errors
    ///
    /// Fails when the header is not that of a supported capture file.
    pub fn new(mut input: R) -> Result<Self, Error> {
        let mut header = [0; FILE_HEADER];
        let len = fill(&mut input, &mut header).map_err(Error::Io)?;
        let magic = <[u8; 4]>::try_from(&header[..4]).expect("four bytes");
        if u32::from_be_bytes(magic) == MAGIC_PCAPNG {
            return Err(Error::Pcapng);
        }
        let kind = |magic| match magic {
            MAGIC_MICROS => Some(1),
            MAGIC_NANOS => Some(1000),
            _ => None,
        };
        let (big, little) = (kind(u32::from_be_bytes(magic)), kind(u32::from_le_bytes(magic)));
        let parts_per_micro = big.or(little).ok_or(Error::NotPcap)?;
        if len < FILE_HEADER {
            return Err(Error::NotPcap);
        }
        let big_endian = big.is_some();
        let number = number(&header, 20, big_endian) & LINK_TYPE;
        let link = LinkType::numbered(number).ok_or(Error::LinkType(number))?;
        Ok(Self { input, link, big_endian, parts_per_micro, frames: 0, frame: Vec::new() })
    }

    /// The link layer of the frames.
    pub const fn link(&self) -> LinkType {
        self.link
    }

    /// Number of frames read so far.
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    /// Returns the next frame; `None` at the end.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be read, or is damaged here. Frames behind a damaged one cannot
    /// be found.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, Error> {
        let mut header = [0; FRAME_HEADER];
        match fill(&mut self.input, &mut header).map_err(Error::Io)? {
            0 => return Ok(None),
            FRAME_HEADER => {}
            _ => return Err(Error::Truncated(self.frames + 1)),
        }
        self.frames += 1;
        let field = |at| number(&header, at, self.big_endian);
        let (seconds, parts, len) = (field(0), field(4), field(8));
        if len > LONGEST {
            return Err(Error::TooLong(self.frames));
        }
        self.frame.resize(len as usize, 0);
        if fill(&mut self.input, &mut self.frame).map_err(Error::Io)? < self.frame.len() {
            return Err(Error::Truncated(self.frames));
        }
        let micros = u64::from(seconds) * MICROS + u64::from(parts / self.parts_per_micro);
        Ok(Some(Frame { at: Instant::from_micros(micros), bytes: &self.frame }))
    }
}

fn number(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let bytes = bytes[at..at + 4].try_into().expect("four bytes");
    if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

/// Fills `buf` as far as the input goes, and returns the number of bytes.
fn fill(input: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buf.len() {
        match input.read(&mut buf[len..]) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(file: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, Error> {
        let mut reader = Reader::new(file)?;
        let mut frames = Vec::new();
        while let Some(frame) = reader.next_frame()? {
            frames.push((frame.at.as_micros(), frame.bytes.to_vec()));
        }
        Ok(frames)
    }

    fn written() -> (Vec<u8>, Vec<(u64, Vec<u8>)>) {
        let frames = vec![(0, vec![]), (1_999_999, vec![7; 127]), (4_000_000_000_000_001, vec![1])];
        let mut writer = Writer::new(Vec::new(), LinkType::Ieee802154).unwrap();
        for (at, frame) in &frames {
            writer.write(Instant::from_micros(*at), frame).unwrap();
        }
        (writer.finish().unwrap(), frames)
    }

    #[test]
    fn what_is_written_is_read_and_every_cut_is_noticed() {
        let (file, frames) = written();
        assert_eq!(read_all(&file).unwrap(), frames);
        let ends = [24, 40, 40 + 143, 40 + 143 + 17];
        for cut in 0..file.len() {
            let read = read_all(&file[..cut]);
            assert_eq!(read.is_ok(), ends.contains(&cut), "{cut}");
        }
    }

    /// A file written by hand: big endian, nanoseconds, and Ethernet with the length of a checksum
    /// in the upper bits of the link type.
    #[test]
    fn other_orders_and_units_are_read() {
        let mut file = vec![0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4];
        file.extend([0; 12]);
        file.extend([0x44, 0, 0, 1]);
        file.extend([0, 0, 0, 2, 0, 0, 0x0b, 0xb9, 0, 0, 0, 1, 0, 0, 0, 9, 0x55]);
        assert_eq!(Reader::new(&file[..]).unwrap().link(), LinkType::Ethernet);
        assert_eq!(read_all(&file).unwrap(), [(2_000_003, vec![0x55])]);
    }

    #[test]
    fn what_is_none_is_refused() {
        assert!(matches!(read_all(b""), Err(Error::NotPcap)));
        assert!(matches!(read_all(&[0x2f; 100]), Err(Error::NotPcap)));
        assert!(matches!(read_all(&[0x0a, 0x0d, 0x0d, 0x0a, 0, 0]), Err(Error::Pcapng)));
        let (mut file, _) = written();
        file[24 + 11] = 1;
        assert!(matches!(read_all(&file), Err(Error::TooLong(1))), "16 MiB");
        file[20] = 147;
        assert!(matches!(read_all(&file), Err(Error::LinkType(147))));
        let late = Instant::from_micros((1 << 32) * 1_000_000);
        let mut writer = Writer::new(io::sink(), LinkType::Ip).unwrap();
        assert!(writer.write(late, b"").is_err());
        assert!(writer.write(Instant::ZERO, &vec![0; LONGEST as usize + 1]).is_err());
    }
}
