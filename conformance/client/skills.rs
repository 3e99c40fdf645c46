//! Skills, which are listed at once and read when they are wanted.

use std::error::Error;

use turms::Client;

/// Lists the skills and reads nothing.
pub(crate) async fn list(client: &Client) -> Result<(), Box<dyn Error>> {
    client.list_skills().await?;
    Ok(())
}

/// Loads every skill: its instructions first, and its other files if those are what they should be.
pub(crate) async fn load(client: &Client) -> Result<(), Box<dyn Error>> {
    for skill in client.list_skills().await? {
        client.read_skill(&skill).await?;
        for file in skill.files().unwrap_or_default() {
            client.read_skill_file(&skill, &file.uri).await?;
        }
    }
    Ok(())
}
