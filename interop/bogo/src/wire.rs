//! The connection to the runner: datagrams and steps of virtual time over TCP.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// What the runner sends.
#[derive(Debug)]
pub(crate) enum Frame {
    /// A datagram.
    Datagram(Vec<u8>),
    /// This time passes, in which nothing arrives.
    Pass(Duration),
    /// The longest datagram, in bytes, changes.
    Mtu(u32),
    /// The next timeout must be this far away; with `None` there must be none.
    ExpectTimeout(Option<Duration>),
    /// The runner closed the connection.
    End,
}

/// A connection to the runner.
#[derive(Debug)]
pub(crate) struct Wire(TcpStream);

impl Wire {
    /// Connects, and tells the runner which of its cases this is.
    pub(crate) fn connect(port: u16, is_ipv6: bool, shim_id: u64) -> io::Result<Self> {
        let address: SocketAddr = match is_ipv6 {
            true => (Ipv6Addr::LOCALHOST, port).into(),
            false => (Ipv4Addr::LOCALHOST, port).into(),
        };
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.write_all(&shim_id.to_le_bytes())?;
        Ok(Self(stream))
    }

    /// Sends a datagram. A runner that does not listen any more is no error: what it sent before
    /// may still have to be read.
    pub(crate) fn send(&mut self, datagram: &[u8]) {
        let len = u32::try_from(datagram.len()).expect("a datagram is short");
        let mut frame = vec![b'P'];
        frame.extend(len.to_be_bytes());
        frame.extend(datagram);
        let _ = self.0.write_all(&frame);
    }

    /// Tells the runner that everything before the step of time is sent.
    pub(crate) fn confirm_time(&mut self) {
        let _ = self.0.write_all(b"t");
    }

    /// Waits for the next frame.
    pub(crate) fn receive(&mut self) -> io::Result<Frame> {
        let mut kind = [0];
        match self.0.read(&mut kind) {
            Ok(0) => return Ok(Frame::End),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(Frame::End),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        Ok(match kind[0] {
            b'P' => {
                let mut datagram = vec![0; self.number()? as usize];
                self.0.read_exact(&mut datagram)?;
                Frame::Datagram(datagram)
            }
            b'T' => Frame::Pass(Duration::from_nanos(self.long()?)),
            b'M' => Frame::Mtu(self.number()?),
            b'E' => {
                let nanos = self.long()?;
                Frame::ExpectTimeout((nanos != u64::MAX).then(|| Duration::from_nanos(nanos)))
            }
            other => return Err(io::Error::other(format!("an unknown frame {other:#x}"))),
        })
    }

    fn number(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.0.read_exact(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn long(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact(&mut bytes)?;
        Ok(u64::from_be_bytes(bytes))
    }
}

/// The runner must be able to send what it still has to send, or it fails.
impl Drop for Wire {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Write);
        let _ = io::copy(&mut self.0, &mut io::sink());
    }
}
