//! Skills: one from a directory with subdirectories, and one from memory.

use turms::prelude::*;
use turms::{Skill, SkillError, Skills};

pub(crate) fn add(server: Server) -> Result<Server, SkillError> {
    let workflow = Skill::new("git-workflow", "How branches and commits are made here.")
        .path_prefix("team")
        .instructions("# Branches\n\nSee examples/message.md.\n")
        .file("examples/message.md", "area: what changes\n");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/skills");
    Ok(server.extension(Skills::directory(folder)?.skill(workflow)))
}
