//! Skills: listed, and read on demand.

use std::error::Error;

use turms::Client;

/// Lists the skills without reading them.
pub(crate) async fn list(client: &Client) -> Result<(), Box<dyn Error>> {
    client.list_skills().await?;
    Ok(())
}

/// Reads every skill: its instructions first, then its other files, which are verified.
pub(crate) async fn load(client: &Client) -> Result<(), Box<dyn Error>> {
    for skill in client.list_skills().await? {
        client.read_skill(&skill).await?;
        for file in skill.files().unwrap_or_default() {
            client.read_skill_file(&skill, &file.uri).await?;
        }
    }
    Ok(())
}
