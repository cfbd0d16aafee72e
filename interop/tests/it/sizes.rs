//! What handshakes send, compared with the page of the documentation.

use interop::sizes::{self, Size};
use lightseal_dtls::ProtocolVersion;

const PAGE: &str = include_str!("../../../docs/handshake-sizes.md");

/// The lengths of a handshake's signatures vary around the median of some handshakes, and those of
/// the certificates, which are made anew for each run, from run to run: by this many bytes together.
const TOLERANCE: usize = 8;

#[test]
fn the_page_has_the_sizes_of_new_handshakes() {
    let rows = sizes::rows(9);
    for version in [ProtocolVersion::Dtls13, ProtocolVersion::Dtls12] {
        let (_, part) = PAGE.split_once(&format!("## {version}\n\n")).expect("a part for each");
        let stored: Vec<_> = part.lines().take_while(|line| line.starts_with('|')).collect();
        let table = sizes::table(&rows, version);
        let measured: Vec<_> = table.lines().collect();
        assert_eq!(stored.len(), measured.len(), "{version}");
        assert!(stored.len() >= 10, "a head and eight rows at least");
        for (stored, measured) in stored.into_iter().zip(measured) {
            let cells = stored.split(" | ").zip(measured.split(" | "));
            assert!(
                cells.into_iter().all(|(stored, measured)| is_close(stored, measured)),
                "the page has\n{stored}\nbut new handshakes give\n{measured}"
            );
        }
    }
}

fn is_close(stored: &str, measured: &str) -> bool {
    match (size(stored), size(measured)) {
        (Some(stored), Some(measured)) => {
            stored.datagrams == measured.datagrams
                && stored.bytes.abs_diff(measured.bytes) <= TOLERANCE
        }
        _ => stored == measured,
    }
}

/// Reads `123 B in 4`.
fn size(cell: &str) -> Option<Size> {
    let (bytes, datagrams) = cell.trim_end_matches(" |").split_once(" B in ")?;
    Some(Size { bytes: bytes.parse().ok()?, datagrams: datagrams.parse().ok()? })
}
