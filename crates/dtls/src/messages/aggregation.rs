//! The MAC aggregation extension (MAC aggregation paper, section III-A and Fig. 1).
//!
//! ```text
//! request:  schemes server to client | 0x00 | schemes client to server
//! answer:   one scheme or 0x00       | 0x00 | one scheme or 0x00
//! scheme:   0x01 n  |  0x02 n o  |  0x80..0xff length parameters
//! ```
//!
//! Lists are in order of preference. An unknown scheme below 0x80 cannot be skipped: the rest of
//! its list is ignored, and an answer with such a scheme is refused.

use crate::codepoints::{SCHEME_NONE, SCHEME_SELF_DESCRIBING};
use alloc::vec::Vec;
use lightseal_aggregation::Scheme;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Reader, Writer};

const UNKNOWN: DecodeError = DecodeError::invalid("aggregation scheme");

/// Reads a list entry: a scheme, or plain tags for the end of the list; `None` if it is an unknown
/// scheme that is skipped.
fn read_entry(r: &mut Reader<'_>) -> Result<Option<Scheme>, DecodeError> {
    let identifier = r.u8()?;
    let parameters = if identifier == SCHEME_NONE {
        return Ok(Some(Scheme::Plain));
    } else if identifier >= SCHEME_SELF_DESCRIBING {
        r.vec8()?
    } else {
        r.take(Scheme::parameters_len(identifier).ok_or(UNKNOWN)?)?
    };
    Ok(Scheme::from_parameters(identifier, parameters))
}

/// The offer of a client, which is parsed when it is needed.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a>(&'a [u8]);

impl<'a> Offer<'a> {
    /// Wraps an extension's content. Nothing is refused: content that does not parse offers
    /// nothing.
    pub const fn new(content: &'a [u8]) -> Self {
        Self(content)
    }

    /// Selects the first scheme of each list that `to_client` and `to_server` accept: server to
    /// client, client to server. A direction has plain tags if its list names a scheme that this
    /// build lacks, because the client may ask for that scheme later.
    pub fn select(
        &self,
        to_client: impl Fn(Scheme) -> bool,
        to_server: impl Fn(Scheme) -> bool,
    ) -> (Scheme, Scheme) {
        let mut r = Reader::new(self.0);
        let Some(down) = first_accepted(&mut r, Scheme::can_send, to_client) else {
            return (Scheme::Plain, Scheme::Plain);
        };
        (down, first_accepted(&mut r, Scheme::can_receive, to_server).unwrap_or(Scheme::Plain))
    }

    /// The known schemes of each list: server to client, client to server.
    pub fn lists(&self) -> (Vec<Scheme>, Vec<Scheme>) {
        let mut r = Reader::new(self.0);
        let Some(down) = read_list(&mut r) else { return (Vec::new(), Vec::new()) };
        (down, read_list(&mut r).unwrap_or_default())
    }
}

/// Reads the known schemes of a list, each once; `None` if its end could not be found.
fn read_list(r: &mut Reader<'_>) -> Option<Vec<Scheme>> {
    let mut list = Vec::new();
    while !r.is_empty() {
        match read_entry(r).ok()? {
            Some(Scheme::Plain) => break,
            Some(scheme) if !list.contains(&scheme) => list.push(scheme),
            _ => {}
        }
    }
    Some(list)
}

/// Reads a list to its end and returns the first scheme that `accept` accepts, or plain tags if
/// there is none or the build lacks one of the list; `None` if the end could not be found.
fn first_accepted(
    r: &mut Reader<'_>,
    has: impl Fn(Scheme) -> bool,
    accept: impl Fn(Scheme) -> bool,
) -> Option<Scheme> {
    let (mut chosen, mut complete) = (Scheme::Plain, true);
    while !r.is_empty() {
        match read_entry(r).ok()? {
            Some(Scheme::Plain) => break,
            Some(scheme) => {
                complete &= has(scheme);
                if chosen == Scheme::Plain && accept(scheme) {
                    chosen = scheme;
                }
            }
            None => {}
        }
    }
    Some(if complete { chosen } else { Scheme::Plain })
}

/// The longest scheme in bytes: identifier, length and two parameters.
pub(crate) const LONGEST_SCHEME: usize = 4;

/// Writes one scheme, or 0x00 for plain tags.
pub(crate) fn write_scheme(scheme: Scheme, w: &mut Writer<'_>) -> Result<(), BufferFull> {
    // The context contains the identifier, n and o; not every scheme has both parameters.
    let [identifier, parameters @ ..] = scheme.context();
    w.u8(identifier)?;
    let len = Scheme::parameters_len(identifier).unwrap_or(0);
    if identifier >= SCHEME_SELF_DESCRIBING {
        w.u8(len as u8)?;
    }
    w.bytes(&parameters[..len])
}

/// Writes a request's content. Schemes that this build, which is a client's, lacks are left out.
pub fn write_offer(
    to_client: &[Scheme],
    to_server: &[Scheme],
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    write_list(to_client, Scheme::can_receive, w)?;
    w.u8(SCHEME_NONE)?;
    write_list(to_server, Scheme::can_send, w)
}

fn write_list(
    schemes: &[Scheme],
    has: impl Fn(Scheme) -> bool,
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    let written = schemes.iter().filter(|scheme| scheme.aggregates() && has(**scheme));
    written.copied().try_for_each(|scheme| write_scheme(scheme, w))
}

/// Writes an answer's content.
pub fn write_answer(
    to_client: Scheme,
    to_server: Scheme,
    w: &mut Writer<'_>,
) -> Result<(), BufferFull> {
    write_scheme(to_client, w)?;
    w.u8(SCHEME_NONE)?;
    write_scheme(to_server, w)
}

/// Reads one scheme that this build has, or 0x00 for plain tags.
#[inline(never)]
pub(crate) fn read_scheme(r: &mut Reader<'_>) -> Result<Scheme, DecodeError> {
    let known = |scheme: &Scheme| scheme.can_send() || scheme.can_receive();
    read_entry(r)?.filter(known).ok_or(UNKNOWN)
}

/// Parses an answer: server to client, client to server.
#[inline(never)]
pub fn read_answer(content: &[u8]) -> Result<(Scheme, Scheme), DecodeError> {
    let mut r = Reader::new(content);
    let to_client = read_scheme(&mut r)?;
    if r.u8()? != SCHEME_NONE {
        return Err(DecodeError::invalid("aggregation separator"));
    }
    let to_server = read_scheme(&mut r)?;
    r.finish()?;
    Ok((to_client, to_server))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agg(n: u8) -> Scheme {
        Scheme::agg(n).unwrap()
    }

    fn r2d2(o: u8) -> Scheme {
        Scheme::r2d2(o).unwrap()
    }

    #[test]
    fn offers_select_in_order_of_preference() {
        let mut buf = [0; 32];
        let mut w = Writer::new(&mut buf);
        write_offer(&[agg(16), agg(8)], &[agg(4)], &mut w).unwrap();
        assert_eq!(w.written(), [1, 16, 1, 8, 0, 1, 4]);
        let offer = Offer::new(w.finish());
        assert_eq!(offer.select(|_| true, |_| true), (agg(16), agg(4)));
        assert_eq!(offer.select(|s| s == agg(8), |_| false), (agg(8), Scheme::Plain));
    }

    #[test]
    fn what_is_not_known_is_skipped_or_ends_the_offer() {
        let all = |_| true;
        let select = |content: &[u8]| Offer::new(content).select(all, all);
        assert_eq!(select(&[0x80, 2, 9, 9, 1, 8, 0, 2, 8, 51, 1, 2]), (agg(8), agg(2)));
        // Schemes with check bytes, as a peer sees them that does not know them.
        assert_eq!(select(&[0x9f, 1, 8, 1, 8, 0, 0xff, 2, 8, 50, 1, 2]), (agg(8), agg(2)));
        assert_eq!(select(&[2, 9, 50, 1, 8, 0, 2, 8, 50, 1, 2]), (agg(8), r2d2(50)));
        assert_eq!(select(&[7, 1, 8, 0, 1, 8]), (Scheme::Plain, Scheme::Plain));
        assert_eq!(select(&[1, 8, 0, 7, 1, 8]), (agg(8), Scheme::Plain));
        assert_eq!(select(&[1, 1, 1, 17, 1, 2]), (agg(2), Scheme::Plain), "n from 2 to 16");
        assert_eq!(select(&[]), (Scheme::Plain, Scheme::Plain));
    }

    #[test]
    fn lists_have_each_known_scheme_once() {
        let lists = |content: &[u8]| Offer::new(content).lists();
        let offer = [1, 8, 0x80, 1, 9, 1, 4, 1, 8, 0, 1, 17, 1, 2];
        assert_eq!(lists(&offer), (alloc::vec![agg(8), agg(4)], alloc::vec![agg(2)]));
        assert_eq!(lists(&[1, 8, 0, 7, 1, 2]), (alloc::vec![agg(8)], Vec::new()));
        assert_eq!(lists(&[1, 8, 7]), (Vec::new(), Vec::new()));
    }

    #[test]
    fn answers_round_trip_and_refuse_every_cut() {
        let pairs = [
            (agg(8), agg(16)),
            (Scheme::Plain, agg(2)),
            (agg(3), Scheme::Plain),
            (r2d2(50), agg(2)),
            (agg(2), r2d2(200)),
            ("sliding:100".parse().unwrap(), agg(2)),
        ];
        for (down, up) in pairs {
            let mut buf = [0; 8];
            let mut w = Writer::new(&mut buf);
            write_answer(down, up, &mut w).unwrap();
            let bytes = w.finish();
            assert_eq!(read_answer(bytes), Ok((down, up)));
            for cut in 0..bytes.len() {
                assert!(read_answer(&bytes[..cut]).is_err());
            }
        }
        assert!(read_answer(&[1, 8, 1, 8]).is_err(), "no separator");
        assert!(read_answer(&[1, 8, 0, 1, 8, 0]).is_err(), "trailing");
    }
}
