//! How long it takes until all members but an evicted one have new keys.

use super::prelude::*;
use crate::groups::eviction::Eviction;
use lightseal_group::policy::Profile;

pub(super) const FIGURE: Figure = Figure {
    name: "group-eviction",
    title: "All members but one move to new keys, although datagrams are lost",
    source: PaperItem { paper: AXIOM, item: "Section 7.6" },
    about: "A controller evicts one member while each receiver loses a fifth of the datagrams sent \
            to it. The controller announces the change four times within a second. A member that \
            misses all announcements learns from other members' requests that there is a new \
            epoch, and asks the controller. Both run as engines in virtual time, with a delay of \
            20 ms and a request to the group each second.",
    make,
};

/// The share of all datagrams that each receiver loses.
const LOSS: f64 = 0.2;

const MEMBERS: [usize; 4] = [10, 100, 1000, 10_000];

fn make(options: &FigureOptions) -> Result<FigureData, Error> {
    let mut rows = Vec::new();
    for profile in Profile::ALL.iter().copied() {
        for members in MEMBERS {
            let settled = Eviction { profile, members, loss: LOSS, seed: options.seed }.run()?;
            rows.push(vec![
                profile.name().into(),
                whole(members),
                whole(settled.out_of_step),
                settled.duration.as_secs_f64().into(),
                whole(settled.announcements),
                whole(settled.announcement_bytes),
                whole(settled.by_announcement),
                whole(settled.pulls),
                whole(settled.opened_by_evicted),
            ]);
        }
    }
    let columns = [
        ("profile", "profile of the group's records"),
        ("members", "members before one is evicted"),
        ("out_of_step", "remaining members that never received the new keys"),
        ("duration_s", "time until the last remaining member had the new keys"),
        ("announcements", "datagrams of the announcement, repetitions included"),
        ("announcement_bytes", "bytes of each, in a record of the profile"),
        ("by_announcement", "members that received the new keys by the announcement alone"),
        ("pulls", "requests of members to the controller, repetitions included"),
        ("opened_by_evicted", "requests in the new epoch that the evicted member opened"),
    ];
    let rows: Vec<Vec<Cell>> = rows;
    Ok(FigureData::table(Table::new(&columns, rows)))
}
