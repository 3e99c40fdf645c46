//! Limits on the work that a schema can cause. Each reference is followed separately, so a few mutual references can
//! cause exponential work or unlimited recursion.

use crate::node::{Node, NodeId};
use crate::validator::SchemaError;

/// Maximum number of subschemas, with all references followed.
const MAX_WEIGHT: u64 = 200_000;

/// Maximum number of levels, with all references followed.
const MAX_LEVELS: usize = 256;

/// Checks that the work of a compiled schema is bounded.
///
/// # Errors
/// If there is too much work, or infinite recursion.
pub(crate) fn weigh(nodes: &[Node]) -> Result<(), SchemaError> {
    let mut weighing = Weighing { nodes, known: vec![State::New; nodes.len()] };
    let (weight, _) = weighing.weigh(0, 0)?;
    if weight > MAX_WEIGHT {
        return Err(SchemaError::too_heavy());
    }
    let mut seen = vec![Seen::Never; nodes.len()];
    (0..).zip(nodes).try_for_each(|(node, _)| find_end(nodes, node, 0, &mut seen))
}

struct Weighing<'a> {
    nodes: &'a [Node],
    known: Vec<State>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    New,
    /// Being computed.
    Open,
    /// The cost and the number of levels.
    Known(u64, usize),
}

impl Weighing<'_> {
    fn weigh(&mut self, node: NodeId, depth: usize) -> Result<(u64, usize), SchemaError> {
        let known = self.known[node as usize];
        let height = if let State::Known(_, height) = known { height } else { 1 };
        if depth + height > MAX_LEVELS {
            return Err(SchemaError::too_heavy());
        }
        match known {
            State::Known(weight, height) => return Ok((weight, height)),
            // The value decides how often a recursive schema is followed.
            State::Open => return Ok((1, 1)),
            State::New => {}
        }
        self.known[node as usize] = State::Open;
        let (mut weight, mut height) = (1_u64, 1);
        for next in next_of(self.nodes, node, false) {
            let (more, levels) = self.weigh(next, depth + 1)?;
            weight = weight.saturating_add(more);
            height = height.max(levels + 1);
        }
        self.known[node as usize] = State::Known(weight, height);
        Ok((weight, height))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Never,
    OnTheWay,
    Done,
}

/// Finds schemas that apply themselves to the same value, which is infinite recursion. The path may be deeper than the
/// measured height, because a recursive schema counts as one level.
fn find_end(nodes: &[Node], node: NodeId, depth: usize, seen: &mut [Seen]) -> Result<(), SchemaError> {
    if depth > MAX_LEVELS {
        return Err(SchemaError::too_heavy());
    }
    match std::mem::replace(&mut seen[node as usize], Seen::OnTheWay) {
        Seen::OnTheWay => return Err(SchemaError::endless()),
        Seen::Done => {}
        Seen::Never => {
            next_of(nodes, node, true).into_iter().try_for_each(|next| find_end(nodes, next, depth + 1, seen))?
        }
    }
    seen[node as usize] = Seen::Done;
    Ok(())
}

fn next_of(nodes: &[Node], node: NodeId, only_same_value: bool) -> Vec<NodeId> {
    let mut next = Vec::new();
    for rule in &nodes[node as usize].rules {
        rule.each_node(|node, same_value| {
            if same_value || !only_same_value {
                next.push(node);
            }
        });
    }
    next
}
