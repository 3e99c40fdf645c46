use serde::Deserialize;
use turms::InputError;
use turms::prelude::*;

#[derive(Deserialize)]
struct NoSchema {
    size: u32,
}

struct NoDerives {
    size: u32,
}

#[tool]
async fn order(context: Context) -> Result<String, InputError> {
    let answer = context.elicit::<NoSchema>("Which size?").await?;
    Ok(answer.accepted().map_or_else(String::new, |answer| answer.size.to_string()))
}

#[tool]
async fn again(context: Context) -> Result<String, InputError> {
    match context.elicit::<NoDerives>("Which size?").await? {
        Elicited::Accepted(answer) => Ok(answer.size.to_string()),
        _ => Ok(String::new()),
    }
}

fn main() {
    let _ = Server::new("test", "1").tool(order).tool(again);
}
