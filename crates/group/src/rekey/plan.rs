//! The plan of a rekey: the wrapped keys of a change, the members that need each of them, and the
//! division into parts that fit into one message each.
//!
//! The leaves of the members that stay are divided into *audiences*: neighbouring leaves that need
//! the same wraps. A part is for one or several neighbouring audiences, and has all wraps that each
//! of them needs up to the root.

use alloc::vec::Vec;
use core::ops::Range;

use super::node::Node;
use super::shape::{ChildUse, Nibbles};
use super::wrap::WRAPPED;

/// What is below one child of a node with a new key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlannedChild {
    /// No member that stays.
    Nobody,
    /// A child with an unchanged key: the audience with this index.
    Unchanged(usize),
    /// A child with a new key: the node of the plan with this index.
    Described(usize),
}

/// A child of a node, and the node's new key wrapped under the child's key.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChildWrap {
    pub(super) way: PlannedChild,
    pub(super) wrapped: Option<[u8; WRAPPED]>,
}

impl ChildWrap {
    pub(super) const NOBODY: Self = Self { way: PlannedChild::Nobody, wrapped: None };
}

#[derive(Clone, Debug)]
struct RekeyNode {
    /// The node's new key wrapped under its own old key, if no member below it has left.
    own: Option<[u8; WRAPPED]>,
    children: [ChildWrap; 2],
    /// The audiences below this node.
    audiences: Range<usize>,
}

/// All wrapped keys of one change. It contains no keys in clear.
#[derive(Clone, Debug)]
pub(super) struct RekeyPlan {
    pub(super) depth: u8,
    nodes: Vec<RekeyNode>,
    /// The number of the first leaf of each audience.
    first_leaves: Vec<u32>,
}

/// The shape and the wrapped keys of a part.
#[derive(Debug, Default)]
pub(super) struct PartContent {
    pub(super) shape: Nibbles,
    pub(super) wraps: Vec<[u8; WRAPPED]>,
}

impl RekeyPlan {
    pub(super) const fn new(depth: u8) -> Self {
        Self { depth, nodes: Vec::new(), first_leaves: Vec::new() }
    }

    /// Begins a node. Nodes and audiences that are added before [`Self::close`] are below it.
    /// Returns its index.
    pub(super) fn open(&mut self, own: Option<[u8; WRAPPED]>) -> usize {
        let audiences = self.first_leaves.len()..0;
        self.nodes.push(RekeyNode { own, children: [ChildWrap::NOBODY; 2], audiences });
        self.nodes.len() - 1
    }

    /// Adds an audience below the nodes that are open. Returns its index.
    pub(super) fn audience(&mut self, child: Node) -> usize {
        self.first_leaves.push(child.first_leaf());
        self.first_leaves.len() - 1
    }

    /// Closes a node.
    pub(super) fn close(&mut self, at: usize, children: [ChildWrap; 2]) {
        self.nodes[at].children = children;
        self.nodes[at].audiences.end = self.first_leaves.len();
    }

    /// The number of audiences.
    pub(super) fn audiences(&self) -> usize {
        self.first_leaves.len()
    }

    /// The first and the last leaf of a part. Together the parts cover all leaves.
    pub(super) fn leaves(&self, part: &Range<usize>) -> [u32; 2] {
        let first = if part.start == 0 { 0 } else { self.first_leaves[part.start] };
        let last = self.first_leaves.get(part.end).copied().unwrap_or(1 << self.depth) - 1;
        [first, last]
    }

    /// The shape and the wrapped keys of a part.
    pub(super) fn tell(&self, part: &Range<usize>) -> PartContent {
        let mut told = PartContent::default();
        self.visit(0, part, &mut |children, wraps| {
            told.shape.push(children);
            told.wraps.extend(wraps.into_iter().flatten());
        });
        told
    }

    /// The number of nodes that a part describes, and its number of wraps.
    fn size(&self, part: &Range<usize>) -> (usize, usize) {
        let mut size = (0, 0);
        self.visit(0, part, &mut |_, wraps| {
            size.0 += 1;
            size.1 += wraps.into_iter().flatten().count();
        });
        size
    }

    fn visit(
        &self,
        at: usize,
        part: &Range<usize>,
        tell: &mut impl FnMut([ChildUse; 2], [Option<[u8; WRAPPED]>; 2]),
    ) {
        let node = &self.nodes[at];
        let concerned = |planned: &ChildWrap| match planned.way {
            PlannedChild::Nobody => false,
            PlannedChild::Unchanged(audience) => part.contains(&audience),
            PlannedChild::Described(at) => {
                let below = &self.nodes[at].audiences;
                below.start < part.end && part.start < below.end
            }
        };
        let children = node.children.map(|planned| match planned.way {
            _ if !concerned(&planned) => ChildUse::Nothing,
            PlannedChild::Described(_) if node.own.is_some() => ChildUse::Own,
            PlannedChild::Described(_) => ChildUse::Changed,
            _ if node.own.is_some() => ChildUse::Nothing,
            _ => ChildUse::Unchanged,
        });
        let under_children =
            node.children.map(|planned| planned.wrapped.filter(|_| concerned(&planned)));
        tell(children, if node.own.is_some() { [node.own, None] } else { under_children });
        for planned in node.children.iter().filter(|planned| concerned(planned)) {
            if let PlannedChild::Described(below) = planned.way {
                self.visit(below, part, tell);
            }
        }
    }

    /// Divides the plan into parts, each as large as `fits` permits. `fits` takes the length of the
    /// shape in bytes and the number of wraps. `None` if one audience alone does not fit.
    pub(super) fn parts(&self, fits: impl Fn(usize, usize) -> bool) -> Option<Vec<Range<usize>>> {
        let fits = |part: Range<usize>| {
            let (nodes, wraps) = self.size(&part);
            fits(nodes.div_ceil(2), wraps)
        };
        let (mut parts, mut start) = (Vec::new(), 0);
        while start < self.audiences() {
            let rest = self.audiences() - start;
            if !fits(start..start + 1) {
                return None;
            }
            // `good` audiences fit. `bad` audiences do not fit, or are more than remain.
            let (mut good, mut bad) = (1, rest + 1);
            let mut step = 1;
            while good + step < bad {
                if fits(start..start + good + step) {
                    good += step;
                    step *= 2;
                } else {
                    bad = good + step;
                }
            }
            while bad - good > 1 {
                let middle = good + (bad - good) / 2;
                if fits(start..start + middle) { good = middle } else { bad = middle }
            }
            parts.push(start..start + good);
            start += good;
        }
        Some(parts)
    }
}
