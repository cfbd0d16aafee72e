//! The figures, tables and results of the five papers in their order, which is the plan of the
//! page.
//!
//! A figure whose source is an item here is shown at the item's place. The titles of papers are
//! those in figures' sources. An item covers its parts, so `Figure 4` is also the place of a figure
//! from `Figure 4a`.

use crate::figure::PaperItem;

/// A paper and its items.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// A short name for links, unique among the papers.
    pub name: &'static str,
    /// Authors, title and venue, as in [`PaperItem::paper`].
    pub title: &'static str,
    /// The subject in a few words, for the table of contents.
    pub short: &'static str,
    /// The paper's figures, tables and results.
    pub items: &'static [Item],
}

/// A figure, a table or a result in the text of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// The number in the paper, as in [`PaperItem::item`].
    pub name: &'static str,
    /// What the item shows, in our words.
    pub shows: &'static str,
    /// What would make the item if no figure of the registry does.
    pub by: &'static str,
}

/// The LightMAC paper.
pub const LIGHTMAC: &str =
    "Luykx, Preneel, Tischhauser, Yasuda: A MAC Mode for Lightweight Block Ciphers, FSE 2016";
/// The paper on MAC aggregation.
pub const AGGREGATION: &str =
    "Wagner, Heye, Bauer, Wehrle, Serror: MAC Aggregation over Lossy Channels in DTLS 1.3";
/// The paper on secure groups.
pub const AXIOM: &str =
    "Tiloca, Nikitin, Raza: Axiom: DTLS-Based Secure IoT Group Communication, ACM TECS";
/// The paper on MACsec tunnels.
pub const TUNNEL: &str = "Lackorzynski et al.: Secure and Efficient Tunneling of MACsec for Modern \
                          Industrial Use Cases, arXiv 2205.12748";
/// The paper on duty-cycled networks.
pub const DUTY_CYCLED: &str =
    "Vucinic et al., DTLS Performance in Duty-Cycled Networks, 2015 (PIMRC)";

/// What stands beside a paper's items: measurements on a device, which the paper does not have.
pub(crate) const DEVICE: &str = "On a device";

const REGISTRY: &str = "a figure of the registry";
const MEASURE: &str = "cargo xtask measure lightmac-speed, which stores what it measures";
const FOOTPRINT: &str = "cargo xtask footprint --store, which stores what it measures";
const GATEWAY: &str = "cargo xtask bench-gateway --store, which stores what it measures";

const fn item(name: &'static str, shows: &'static str, by: &'static str) -> Item {
    Item { name, shows, by }
}

/// All five papers.
pub const PAPERS: [Paper; 5] = [
    Paper {
        name: "lightmac",
        title: LIGHTMAC,
        short: "LightMAC",
        items: &[
            item("Table 1", "block and key sizes of lightweight ciphers", REGISTRY),
            item("Table 2", "bounds of modes, by powers of the message length", REGISTRY),
            item("Figure 1", "how much one key may process", REGISTRY),
            item("Table 3", "speed of the ciphers by themselves", MEASURE),
            item("Table 4", "speed of LightMAC, EMAC and PMAC with Parity", MEASURE),
            item(DEVICE, "instructions of tags, beside CMAC and HMAC", FOOTPRINT),
        ],
    },
    Paper {
        name: "aggregation",
        title: AGGREGATION,
        short: "MAC aggregation",
        items: &[
            item("Table I", "the schemes as negotiated", REGISTRY),
            item("Figure 4a", "which parameters of Agg suit which channel", REGISTRY),
            item("Figure 4b", "which parameters of R2D2 suit which channel", REGISTRY),
            item("Figure 5", "packet error rates by payload length", REGISTRY),
            item("Figure 6a", "goodput on the good channel", REGISTRY),
            item("Figure 6b", "goodput on the bad channel", REGISTRY),
            item("Figure 7a", "energy saved on the good channel", REGISTRY),
            item("Figure 7b", "energy saved on the bad channel", REGISTRY),
            item("Table II", "the static scenarios", REGISTRY),
            item("Figure 8", "goodput in the static scenarios", REGISTRY),
            item("Figure 9", "how soon data is authentic", REGISTRY),
            item("Figure 10a", "a moving sender with plain tags", REGISTRY),
            item("Figure 10b", "a moving sender under Agg", REGISTRY),
            item("Figure 10c", "a moving sender under R2D2", REGISTRY),
            item("Figure 11", "delays of the moving sender's data", REGISTRY),
            item(DEVICE, "memory and work of the schemes", FOOTPRINT),
        ],
    },
    Paper {
        name: "axiom",
        title: AXIOM,
        short: "Axiom",
        items: &[
            item("Section 6.4", "what a record adds", REGISTRY),
            item("Section 7.6", "what a rekey takes", REGISTRY),
            item("Figure 7", "ROM, by configuration", FOOTPRINT),
            item("Figure 8", "RAM, by configuration", FOOTPRINT),
            item("Figure 9", "the sender's RAM, by number of listeners", FOOTPRINT),
            item("Figure 10", "time of a first group transaction", REGISTRY),
            item("Table I", "time of handshakes and of messages", REGISTRY),
            item("Figure 11", "the sender's energy in a first group transaction", REGISTRY),
            item("Figure 12", "a listener's energy in a first group transaction", REGISTRY),
            item("Table II", "energy in detail", REGISTRY),
        ],
    },
    Paper {
        name: "tunnel",
        title: TUNNEL,
        short: "MACsec tunnel",
        items: &[
            item("Table 2", "round-trip time and throughput of four tunnels", GATEWAY),
            item("Figure 5", "round-trip time and throughput on further hardware", GATEWAY),
        ],
    },
    Paper {
        name: "duty",
        title: DUTY_CYCLED,
        short: "Duty-cycled networks",
        items: &[
            item("Figure 2 (a)", "duration over X-MAC, one hop", REGISTRY),
            item("Figure 2 (b)", "duration over X-MAC, several hops", REGISTRY),
            item("Figure 2 (c)", "energy over X-MAC", REGISTRY),
            item("Figure 3 (a)", "duration in beacon-enabled mode, one hop", REGISTRY),
            item("Figure 3 (b)", "duration in beacon-enabled mode, several hops", REGISTRY),
            item("Figure 3 (c)", "energy in beacon-enabled mode", REGISTRY),
            item("Table I", "duration over TSCH, one hop", REGISTRY),
            item("Table II", "duration over TSCH, several hops", REGISTRY),
            item("section IV", "how often clients find no session slot", REGISTRY),
            item(DEVICE, "how many sessions fit in RAM, and how often they are taken", FOOTPRINT),
        ],
    },
];

impl Item {
    /// Whether a source is this item or a part of it.
    pub fn covers(&self, source: &str) -> bool {
        let Some(part) = source.strip_prefix(self.name) else { return false };
        let part = part.trim_start();
        part.is_empty() || part.starts_with(|c: char| c == '(' || c.is_ascii_lowercase())
    }
}

impl Paper {
    /// Whether a source is in this paper.
    pub fn has(&self, source: &PaperItem) -> bool {
        self.title == source.paper
    }

    /// The item that a source is, or is a part of; `None` if it is something else in this paper.
    pub fn item(&self, source: &PaperItem) -> Option<&'static Item> {
        self.items.iter().find(|item| item.covers(source.item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::FIGURES;

    #[test]
    fn parts_belong_to_their_item_and_other_items_do_not() {
        let item = item("Figure 1", "", "");
        assert!(["Figure 1", "Figure 1a", "Figure 1 (b)"].iter().all(|name| item.covers(name)));
        let others = ["Figure 10", "Figure 10a", "Figure 11", "Table 1", "Figure"];
        assert!(others.iter().all(|name| !item.covers(name)));
        let table = super::item("Table I", "", "");
        assert!(table.covers("Table I") && !table.covers("Table II"));
    }

    #[test]
    fn every_figure_is_of_a_known_paper() {
        for figure in FIGURES {
            let papers = PAPERS.iter().filter(|paper| paper.has(&figure.source)).count();
            assert_eq!(papers, 1, "{}", figure.name);
        }
    }

    #[test]
    fn items_do_not_overlap() {
        for paper in PAPERS {
            for item in paper.items {
                let same = paper.items.iter().filter(|other| other.covers(item.name)).count();
                assert_eq!(same, 1, "{}, {}", paper.title, item.name);
            }
        }
    }
}
