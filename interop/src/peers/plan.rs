//! The cells of the matrix, as rows and columns of tables.

use super::{Cell, Cid, Credential, Group, Network, Suite, Version};

/// A column of a table: how the cell of a row is tried, and the column's title.
pub(super) type Column = (fn(Cell) -> Cell, &'static str);

/// A table for one version.
pub(super) struct Table {
    /// The cells of the first column.
    pub(super) rows: Vec<Cell>,
    /// The columns.
    pub(super) columns: &'static [Column],
    /// How many of the columns each row has. The others are for the first row of each credential.
    plain_columns: usize,
}

impl Table {
    /// The tables of a version: with a PSK, and with certificates and raw public keys.
    pub(super) fn of(version: Version) -> [Self; 2] {
        let suites = Suite::WITH_PSK.into_iter().filter(|suite| suite.version() == version);
        let rows = suites.map(Cell::plain).collect();
        let plain_columns = PSK_COLUMNS.len();
        let columns = &PSK_COLUMNS;
        let certified = Self {
            rows: certified_rows(version),
            columns: &CERTIFIED_COLUMNS,
            plain_columns: PLAIN_COLUMNS,
        };
        [Self { rows, columns, plain_columns }, certified]
    }

    /// The cells of one row, in the order of the columns.
    fn row(&self, row: Cell) -> impl Iterator<Item = Cell> {
        let is_first = row.credential == Credential::Psk || row == first_row(&row);
        let count = if is_first { self.columns.len() } else { self.plain_columns };
        self.columns[..count].iter().map(move |(variant, _)| variant(row))
    }
}

/// Every cell of the matrix.
pub fn cells() -> Vec<Cell> {
    let mut all = Vec::new();
    for table in [Version::Dtls12, Version::Dtls13].into_iter().flat_map(Table::of) {
        all.extend(table.rows.iter().flat_map(|row| table.row(*row)));
    }
    // Only DTLS 1.3 has a HelloRetryRequest.
    all.retain(|cell| !cell.retried || cell.suite.version() == Version::Dtls13);
    all
}

const PSK_COLUMNS: [Column; 7] = [
    (|row| row, "no CID"),
    (|row| Cell { cid: Cid::ToServer, ..row }, "CID to server"),
    (|row| Cell { cid: Cid::ToClient, ..row }, "CID to client"),
    (|row| Cell { cid: Cid::BothEnds, ..row }, "CIDs both ways"),
    (
        |row| Cell { cid: Cid::BothEnds, network: Network::Rebinding, ..row },
        "CIDs both ways, rebinding",
    ),
    (|row| Cell { network: Network::Lossy, ..row }, "no CID, loss"),
    (|row| Cell { cid: Cid::BothEnds, network: Network::Lossy, ..row }, "CIDs both ways, loss"),
];

/// How many of [`CERTIFIED_COLUMNS`] every group and suite is tried with.
const PLAIN_COLUMNS: usize = 2;

const CERTIFIED_COLUMNS: [Column; 8] = [
    (|row| row, "server alone"),
    (|row| Cell { mutual: true, ..row }, "client too"),
    (|row| Cell { retried: true, ..row }, "HelloRetryRequest"),
    (|row| Cell { resumed: true, ..row }, "resumption"),
    (|row| Cell { mutual: true, resumed: true, ..row }, "client too, resumption"),
    (|row| Cell { cid: Cid::BothEnds, ..row }, "CIDs both ways"),
    (
        |row| Cell { cid: Cid::BothEnds, network: Network::Rebinding, ..row },
        "CIDs both ways, rebinding",
    ),
    (|row| Cell { mutual: true, network: Network::Lossy, ..row }, "client too, loss"),
];

/// The row of the credential of `row` with its first suite and group.
fn first_row(row: &Cell) -> Cell {
    let suite = row.credential.first_suite(row.suite.version());
    Cell::certified(suite, row.credential, Group::X25519)
}

/// Each credential, and each other group and suite with ECDSA P-256.
fn certified_rows(version: Version) -> Vec<Cell> {
    let first = |credential: Credential| {
        Cell::certified(credential.first_suite(version), credential, Group::X25519)
    };
    let mut rows: Vec<_> = Credential::CERTIFIED.map(first).into();
    let usual = first(Credential::EcdsaP256);
    let groups = Group::ALL.into_iter();
    let groups = groups
        .filter(|group| *group != usual.group)
        .filter(|group| version == Version::Dtls13 || *group != Group::X25519MlKem768);
    rows.extend(groups.map(|group| Cell { group, ..usual }));
    let suites = Suite::CERTIFIED.into_iter();
    let suites = suites
        .filter(|suite| suite.version() == version)
        .filter(|suite| ![usual.suite, Suite::RsaGcm].contains(suite));
    rows.extend(suites.map(|suite| Cell { suite, ..usual }));
    rows
}
