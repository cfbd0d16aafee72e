//! Nodes: which of them hear each other, and how packets are routed.

use core::net::Ipv6Addr;

/// The number of a node in its world, from which its addresses are derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

impl NodeId {
    /// The broadcast address: every node that hears the sender.
    pub const EVERYBODY: Self = Self(u16::MAX);

    /// The node's link-local address.
    pub const fn link_local(self) -> Ipv6Addr {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, self.0)
    }
}

/// A tree of nodes that route towards its root, node 0, and the nodes that each node hears.
#[derive(Clone, Debug)]
pub struct Topology {
    parents: Vec<NodeId>,
    /// The children of each node, ascending by `spans`.
    children: Vec<Vec<NodeId>>,
    /// The first and the last number in the subtree of each node, when nodes are numbered depth
    /// first.
    spans: Vec<(u32, u32)>,
    hears: Vec<Vec<NodeId>>,
}

impl Topology {
    /// Nodes in a row, at least one. Each hears the two nodes beside it.
    pub fn line(nodes: u16) -> Self {
        Self::grid(nodes, 1)
    }

    /// A root and `leaves` nodes around it, all of which hear each other.
    pub fn star(leaves: u16) -> Self {
        let all = || (0..=leaves).map(NodeId);
        let others = |id| all().filter(|other| *other != id).collect();
        Self::new(vec![NodeId(0); usize::from(leaves) + 1], all().map(others).collect())
    }

    /// Nodes on a grid. Each hears the nodes beside, above and below it. The root is in a corner.
    /// Packets for the root go along the row first, then along the column.
    pub fn grid(width: u16, height: u16) -> Self {
        let (width, height) = (width.max(1), height.max(1));
        let nodes = || (0..width * height).map(move |id| (id % width, id / width));
        let at = |(x, y): (u16, u16)| NodeId(y * width + x);
        let parent = |(x, y): (u16, u16)| match x {
            0 => at((0, y.saturating_sub(1))),
            _ => at((x - 1, y)),
        };
        let beside = |(x, y): (u16, u16)| {
            let left = x.checked_sub(1).map(|x| (x, y));
            let right = (x + 1 < width).then_some((x + 1, y));
            let above = y.checked_sub(1).map(|y| (x, y));
            let below = (y + 1 < height).then_some((x, y + 1));
            [left, right, above, below].into_iter().flatten().map(at).collect()
        };
        Self::new(nodes().map(parent).collect(), nodes().map(beside).collect())
    }

    /// Makes a topology from the parent of each node, which lead to node 0, and from the nodes that
    /// each node hears.
    fn new(parents: Vec<NodeId>, hears: Vec<Vec<NodeId>>) -> Self {
        let mut children = vec![Vec::new(); parents.len()];
        for (id, parent) in (0..).map(NodeId).zip(&parents).skip(1) {
            children[usize::from(parent.0)].push(id);
        }
        let mut spans = vec![(0, 0); parents.len()];
        let mut count = 0;
        // Each node is visited twice: on the way down and on the way up.
        let mut stack = vec![(NodeId(0), false)];
        while let Some((id, down)) = stack.pop() {
            let at = usize::from(id.0);
            if down {
                spans[at].1 = count - 1;
                continue;
            }
            spans[at].0 = count;
            count += 1;
            stack.push((id, true));
            stack.extend(children[at].iter().rev().map(|child| (*child, false)));
        }
        Self { parents, children, spans, hears }
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.parents.len()
    }

    /// Always `false`, because a topology has at least one node.
    pub fn is_empty(&self) -> bool {
        self.parents.is_empty()
    }

    /// All nodes, in the order of their numbers.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.parents.len()).map(|id| NodeId(id as u16))
    }

    /// The next hop of packets for the root; `None` at the root.
    pub fn parent(&self, id: NodeId) -> Option<NodeId> {
        (id.0 > 0).then(|| self.parents[usize::from(id.0)])
    }

    /// The nodes whose packets for the root go through this node next.
    pub fn children(&self, id: NodeId) -> &[NodeId] {
        &self.children[usize::from(id.0)]
    }

    /// The nodes whose frames this node can hear.
    pub fn hears(&self, id: NodeId) -> &[NodeId] {
        &self.hears[usize::from(id.0)]
    }

    /// The neighbour of `from` on the way to `to`.
    pub fn next_hop(&self, from: NodeId, to: NodeId) -> NodeId {
        let number = self.spans[usize::from(to.0)].0;
        let below = |id: NodeId| {
            let (first, last) = self.spans[usize::from(id.0)];
            (first..=last).contains(&number)
        };
        if from == to {
            return to;
        }
        if !below(from) {
            return self.parents[usize::from(from.0)];
        }
        let children = self.children(from);
        let after = children.partition_point(|child| self.spans[usize::from(child.0)].0 <= number);
        children[after - 1]
    }

    /// Number of hops from one node to another.
    pub fn hops(&self, from: NodeId, to: NodeId) -> u16 {
        let mut at = from;
        let mut hops = 0;
        while at != to {
            at = self.next_hop(at, to);
            hops += 1;
        }
        hops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_walked_both_ways() {
        let line = Topology::line(5);
        assert_eq!(line.next_hop(NodeId(4), NodeId(0)), NodeId(3));
        assert_eq!(line.next_hop(NodeId(1), NodeId(4)), NodeId(2));
        assert_eq!(line.hops(NodeId(4), NodeId(0)), 4);
        assert_eq!(line.hears(NodeId(2)), [NodeId(1), NodeId(3)]);
        assert_eq!((line.parent(NodeId(0)), line.parent(NodeId(1))), (None, Some(NodeId(0))));
    }

    #[test]
    fn every_node_of_a_grid_reaches_every_other() {
        let grid = Topology::grid(5, 4);
        for from in grid.nodes() {
            for to in grid.nodes() {
                assert!(grid.hops(from, to) <= 4 + 2 * 4 + 3 + 3);
                let next = grid.next_hop(from, to);
                assert!(from == to || grid.hears(from).contains(&next));
            }
        }
        assert_eq!(grid.hops(NodeId(19), NodeId(0)), 7);
    }

    #[test]
    fn leaves_of_a_star_meet_at_the_root() {
        let star = Topology::star(3);
        assert_eq!(star.hops(NodeId(1), NodeId(3)), 2);
        assert_eq!(star.next_hop(NodeId(0), NodeId(2)), NodeId(2));
        assert_eq!(star.hears(NodeId(2)).len(), 3);
    }
}
