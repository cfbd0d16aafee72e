//! Makes altered copies of genuine bytes, and random bytes.

use lightseal_core::Random;

/// Lengths and numbers at which codecs tend to break.
const EDGES: [u64; 12] = [0, 1, 2, 15, 16, 17, 0x7f, 0x80, 0xff, 0x3fff, 0xffff, 0xff_ffff];

/// First bytes of records: content types in clear, unified headers with and without connection ID,
/// and invalid ones.
const FIRST: [u8; 14] = [20, 21, 22, 23, 26, 0x20, 0x22, 0x23, 0x2c, 0x2e, 0x2f, 0x3f, 0xe0, 0xff];

fn index(rng: &mut Random, len: usize) -> usize {
    rng.below(len.max(1) as u64) as usize
}

fn pick<'a>(rng: &mut Random, corpus: &'a [Vec<u8>]) -> &'a [u8] {
    corpus.get(index(rng, corpus.len())).map_or(&[], Vec::as_slice)
}

/// Random bytes that begin like a record.
pub fn noise(rng: &mut Random) -> Vec<u8> {
    let most = if rng.below(8) == 0 { 1500 } else { 80 };
    let mut bytes = vec![0; index(rng, most)];
    rng.fill(&mut bytes);
    if let Some(first) = bytes.first_mut().filter(|_| rng.below(4) > 0) {
        *first = FIRST[index(rng, FIRST.len())];
    }
    // A valid version and epoch, and a length that may be right.
    if bytes.len() > 13 && rng.below(2) == 0 {
        bytes[1..5].copy_from_slice(&[0xfe, 0xfd, 0, 0]);
        let length = (bytes.len() - 13) as u16;
        bytes[11..13].copy_from_slice(&length.to_be_bytes());
    }
    bytes
}

/// A copy of something in `corpus` after one to four alterations.
pub fn altered(rng: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = pick(rng, corpus).to_vec();
    for _ in 0..=rng.below(4) {
        alter(rng, &mut bytes, corpus);
    }
    bytes
}

fn alter(rng: &mut Random, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    let at = index(rng, bytes.len());
    match rng.below(9) {
        0 | 1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
        2 => bytes.truncate(at),
        3 => {
            let mut tail = vec![0; index(rng, 40)];
            rng.fill(&mut tail);
            bytes.extend(tail);
        }
        4 => {
            let other = pick(rng, corpus);
            let from = index(rng, other.len());
            bytes.truncate(at);
            bytes.extend(other.get(from..).unwrap_or_default());
        }
        5 => {
            let width = 1 + index(rng, 3);
            let value = EDGES[index(rng, EDGES.len())].wrapping_sub(rng.below(2));
            let value = value.to_be_bytes();
            let edge = bytes.iter_mut().skip(at).take(width);
            edge.zip(&value[8 - width..]).for_each(|(byte, value)| *byte = *value);
        }
        6 => {
            let end = (at + 1 + index(rng, 16)).min(bytes.len());
            bytes.drain(at.min(end)..end);
        }
        7 => {
            let copy: Vec<u8> = bytes.iter().skip(at).take(1 + index(rng, 24)).copied().collect();
            let to = index(rng, bytes.len() + 1);
            bytes.splice(to..to, copy);
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = rng.below(256) as u8;
            }
        }
    }
    bytes.truncate(4096);
}
