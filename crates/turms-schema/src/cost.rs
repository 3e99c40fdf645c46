//! Limits on the work that a schema can cause. Each reference is followed separately, so a few mutual references can
//! cause exponential work or unlimited recursion.

use crate::node::{Node, NodeId};
use crate::validator::SchemaError;

/// Maximum number of subschemas, counted with all references expanded.
const MAX_COST: u64 = 200_000;

/// Maximum nesting depth, counted with all references expanded.
const MAX_LEVELS: usize = 256;

/// Checks that the work of a compiled schema is bounded.
///
/// # Errors
/// If there is too much work, or infinite recursion.
pub(crate) fn check_cost(nodes: &[Node]) -> Result<(), SchemaError> {
    let mut meter = CostMeter { nodes, states: vec![NodeState::New; nodes.len()] };
    let (cost, _) = meter.measure(0, 0)?;
    if cost > MAX_COST {
        return Err(SchemaError::too_large());
    }
    let mut states = vec![VisitState::Unvisited; nodes.len()];
    (0..).zip(nodes).try_for_each(|(node, _)| check_recursion(nodes, node, 0, &mut states))
}

struct CostMeter<'a> {
    nodes: &'a [Node],
    states: Vec<NodeState>,
}

#[derive(Debug, Clone, Copy)]
enum NodeState {
    New,
    /// Being computed: a reference to it is recursive.
    Open,
    /// The cost and the height in levels.
    Known(u64, usize),
}

impl CostMeter<'_> {
    fn measure(&mut self, node: NodeId, depth: usize) -> Result<(u64, usize), SchemaError> {
        let state = self.states[node as usize];
        // An unmeasured node has at least one level.
        let height = if let NodeState::Known(_, height) = state { height } else { 1 };
        if depth + height > MAX_LEVELS {
            return Err(SchemaError::too_large());
        }
        match state {
            NodeState::Known(cost, height) => return Ok((cost, height)),
            // A recursive reference counts once: the depth of the value limits how often it is followed.
            NodeState::Open => return Ok((1, 1)),
            NodeState::New => {}
        }
        self.states[node as usize] = NodeState::Open;
        let (mut cost, mut height) = (1_u64, 1);
        for next in referenced_nodes(self.nodes, node, false) {
            let (more, levels) = self.measure(next, depth + 1)?;
            cost = cost.saturating_add(more);
            height = height.max(levels + 1);
        }
        self.states[node as usize] = NodeState::Known(cost, height);
        Ok((cost, height))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VisitState {
    Unvisited,
    Visiting,
    Done,
}

/// Finds infinite recursion: a schema that is applied again to the same value. The path may be deeper than the
/// measured height, because a recursive schema counts as one level.
fn check_recursion(nodes: &[Node], node: NodeId, depth: usize, states: &mut [VisitState]) -> Result<(), SchemaError> {
    if depth > MAX_LEVELS {
        return Err(SchemaError::too_large());
    }
    match std::mem::replace(&mut states[node as usize], VisitState::Visiting) {
        VisitState::Visiting => return Err(SchemaError::infinite_recursion()),
        VisitState::Done => {}
        VisitState::Unvisited => referenced_nodes(nodes, node, true)
            .into_iter()
            .try_for_each(|next| check_recursion(nodes, next, depth + 1, states))?,
    }
    states[node as usize] = VisitState::Done;
    Ok(())
}

/// Returns the nodes that a node refers to; with `only_same_value`, only those that apply to the same value.
fn referenced_nodes(nodes: &[Node], node: NodeId, only_same_value: bool) -> Vec<NodeId> {
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
