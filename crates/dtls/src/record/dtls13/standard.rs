//! Opening records of DTLS 1.3 that have a tag each.

use crate::codepoints::{ContentType, MAX_CONTENT, MAX_RECORD_NUMBER};
use crate::crypto::{CipherSuite, KeyState, Protection, Record};
use crate::parts::Persistence;
use crate::record::ReplayWindow;
use crate::record::fates::Fate;
use crate::record::outcomes::{ArrivalCounts, Inner, Outcomes};
use crate::tuning::SEARCHED_NUMBERS;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The number of records for which larger numbers are still tried, until one is authenticated.
pub(super) type Search = lightseal_core::parts::PartState<Persistence, u32>;

/// Records with a tag each.
pub(in crate::record) struct Standard {
    pub(super) suite: &'static CipherSuite,
    /// The suite's, where each record finds it without another look into memory.
    pub(super) tag_len: u8,
    /// `None` while the keys are put away.
    pub(super) protection: Option<Box<dyn Protection>>,
    /// The longest content of a record in bytes, content type and padding included.
    pub(super) limit: u16,
    pub(super) window: ReplayWindow,
    pub(super) search: Search,
}

impl Standard {
    /// The longest content of a record, and which records were received.
    pub(in crate::record) const fn progress(&self) -> (usize, &ReplayWindow) {
        (self.limit as usize, &self.window)
    }

    /// Whether numbers that end with the same bits as `record.number`, but are larger, verify the tag;
    /// returns the number. Each one that does not counts as a forgery.
    #[cold]
    #[inline(never)]
    fn find_number(
        &mut self,
        record: Record<'_>,
        number_len: usize,
        sealed: &[u8],
        content: &mut [u8],
        tag: &[u8],
        tally: &mut ArrivalCounts,
    ) -> Option<u64> {
        let protection = self.protection.as_deref()?;
        for step in 1..=SEARCHED_NUMBERS {
            // What is left of the limit is not spent on guesses.
            if tally.usage.state() != KeyState::Fresh {
                return None;
            }
            let number = record.number + (step << (8 * number_len));
            if number > MAX_RECORD_NUMBER {
                return None;
            }
            content.copy_from_slice(sealed);
            tally.usage.add_evaluated(record.header.len(), content.len());
            if protection.open(Record { number, ..record }, content, tag).is_ok() {
                return Some(number);
            }
            tally.usage.add_failed();
        }
        None
    }

    pub(super) fn open<'a>(
        &mut self,
        record: Record<'_>,
        number_len: usize,
        body: &'a mut [u8],
        tally: &mut ArrivalCounts,
        outcomes: &mut Outcomes,
    ) -> Option<Inner<'a>> {
        let Record { mut number, header } = record;
        let is_used = !self.window.check(number);
        // The number that is nearest may be one that was used, and the true one be larger.
        if is_used && self.search.get().is_none_or(|left| *left == 0) {
            outcomes.replayed += 1;
            return None;
        }
        let protection = self.protection.as_deref()?;
        let sealed_len = body.len().checked_sub(self.tag_len.into())?;
        let (content, tag) = body.split_at_mut_checked(sealed_len)?;
        if content.len() > usize::from(self.limit) {
            outcomes.malformed += 1;
            return None;
        }
        tally.usage.add_evaluated(header.len(), content.len());
        let searched = self.search.get_mut().and_then(|left| {
            *left = left.checked_sub(1)?;
            Some(Vec::from(&*content))
        });
        if is_used || protection.open(record, content, tag).is_err() {
            if is_used {
                outcomes.replayed += 1;
            } else {
                tally.forged(outcomes);
            }
            let sealed = searched?;
            number = self.find_number(record, number_len, &sealed, content, tag, tally)?;
        }
        if self.search.get().is_some() {
            self.search = Search::EMPTY;
        }
        self.window.commit(number);
        tally.authentic(outcomes);
        // Strips the padding (RFC 8446, section 5.4). A record of zeros only has no content type.
        let Some(end) = content.iter().rposition(|byte| *byte != 0) else {
            outcomes.malformed += 1;
            return None;
        };
        let kind = ContentType(content[end]);
        if end > MAX_CONTENT {
            outcomes.malformed += 1;
            return None;
        }
        match kind {
            ContentType::APPLICATION_DATA => tally.note(number, end, Fate::Verified),
            _ => tally.note(number, 0, |_| Fate::Control),
        }
        Some(Inner { kind, number, content: &content[..end] })
    }
}
