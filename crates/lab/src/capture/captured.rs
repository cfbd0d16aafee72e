//! Frames and the secrets of their associations.

use super::KeyLog;
use super::pcap::{LinkType, Writer};
use crate::Error;
use crate::handshakes::{HandshakeRun, Outcome, Recording};
use crate::world::Frame;
use std::io::{self, Write};
use std::sync::Arc;

/// The frames that were on the air, and the secrets of their associations.
#[derive(Debug)]
pub struct Captured {
    /// Frames with their checksums, in the order of time.
    pub frames: Vec<Frame>,
    /// The secrets that all ends logged.
    pub keys: Arc<KeyLog>,
}

impl Captured {
    /// Runs handshakes and keeps the frames that were on the air.
    ///
    /// # Errors
    ///
    /// The errors of [`HandshakeRun::record`].
    pub fn record(course: &HandshakeRun<'_>) -> Result<(Vec<Outcome>, Self), Error> {
        let keys = Arc::new(KeyLog::default());
        let (outcomes, Recording { frames }) = course.record(keys.clone())?;
        Ok((outcomes, Self { frames, keys }))
    }

    /// Writes the frames as a capture file.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub fn write<W: Write>(&self, out: W) -> io::Result<W> {
        let mut writer = Writer::new(out, LinkType::Ieee802154)?;
        for Frame { at, bytes } in &self.frames {
            writer.write(*at, bytes)?;
        }
        writer.finish()
    }
}
