use turms::prelude::*;
use turms::{CallParts, FromCall, Rejection};

struct User(String);

impl FromCall for User {
    fn from_call(_: &mut CallParts) -> Result<Self, Rejection> {
        Ok(Self("ann".to_owned()))
    }
}

#[tool]
async fn whoami(user: User, _context: Context) -> String {
    user.0
}

fn main() {
    let _ = Server::new("test", "1").tool(whoami);
}
