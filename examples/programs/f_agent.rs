//! A client of a server that it starts, with a model and a person.
#![expect(clippy::print_stdout, reason = "a program for a terminal")]

use turms::prelude::*;
use turms::types::{CreateMessageResult, ElicitResult};

#[tokio::main]
async fn main() -> turms::Result {
    let mut program = std::env::args().skip(1);
    let command = ChildCommand::new(program.next().unwrap_or_else(|| "clean".to_owned())).args(program);
    let client = Client::builder("agent", "1.0.0")
        .on_sampling(|params, _cx| async move {
            let reply = format!("I was sent {} messages.", params.messages.len());
            Ok(CreateMessageResult::assistant(reply, "my-model"))
        })
        .on_elicitation(|params, cx| async move {
            println!("{} asks: {}", cx.server_name(), params.message());
            Ok(ElicitResult::accept(serde_json::json!({ "sure": true }))?)
        })
        .connect_command(command)
        .await?;
    for tool in client.list_tools().await? {
        println!("{}", tool.name);
    }
    let result = client.call_tool("clean", serde_json::json!({ "days": 30 })).await?.into_result()?;
    println!("{}", result.text());
    client.close().await;
    Ok(())
}
