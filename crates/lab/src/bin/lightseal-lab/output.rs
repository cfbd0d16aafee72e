//! The output of a sweep. The digest of all rows is in the line before them.

use crate::origin::{RowFormat, SweepHeader, hexadecimal};
use lightseal_cli::failure::{Context, Failure};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A file whose first line is written again at the end, or text in memory if the output cannot be
/// written twice.
enum Sink {
    File(BufWriter<File>, PathBuf),
    Text(Vec<u8>, Option<PathBuf>),
}

/// The rows of a sweep, behind the line that describes them.
pub(crate) struct Output {
    sink: Sink,
    origin: SweepHeader,
    format: RowFormat,
    digest: Sha256,
}

impl Output {
    /// Opens `path`, or collects the rows for standard output.
    pub(crate) fn begin(
        path: Option<&Path>,
        origin: SweepHeader,
        format: RowFormat,
    ) -> Result<Self, Failure> {
        let sink = match path {
            Some(path) => {
                let file = File::create(path).context(path.display())?;
                // In a pipe or a terminal the first line cannot be written again.
                match file.metadata().is_ok_and(|found| found.is_file()) {
                    true => {
                        let mut file = BufWriter::new(file);
                        let line = origin.line(format);
                        file.write_all(line.as_bytes()).context(path.display())?;
                        Sink::File(file, path.into())
                    }
                    false => Sink::Text(Vec::new(), Some(path.into())),
                }
            }
            None => Sink::Text(Vec::new(), None),
        };
        Ok(Self { sink, origin, format, digest: Sha256::new() })
    }

    /// Writes the first line again, now that all rows are known.
    pub(crate) fn end(self) -> Result<(), Failure> {
        let rows_digest = hexadecimal(&self.digest.finalize());
        let line = SweepHeader { rows_digest, ..self.origin }.line(self.format);
        match self.sink {
            Sink::File(mut file, path) => file
                .seek(SeekFrom::Start(0))
                .and_then(|_| file.write_all(line.as_bytes()))
                .and_then(|()| file.flush())
                .context(path.display()),
            Sink::Text(text, path) => {
                let mut whole = line.into_bytes();
                whole.extend(text);
                match path {
                    Some(path) => std::fs::write(&path, whole).context(path.display()),
                    None => std::io::stdout().write_all(&whole).context("standard output"),
                }
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = match &mut self.sink {
            Sink::File(file, _) => file.write(bytes)?,
            Sink::Text(text, _) => text.write(bytes)?,
        };
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match &mut self.sink {
            Sink::File(file, _) => file.flush(),
            Sink::Text(..) => Ok(()),
        }
    }
}
