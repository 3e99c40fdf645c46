use turms::prelude::*;
use turms::{IntoPrompt, IntoResource, IntoTool};

struct Own;

impl IntoTool<()> for Own {
    fn into_tool(self) -> Tool {
        unimplemented!()
    }
}

impl IntoPrompt<()> for Own {
    fn into_prompt(self) -> Prompt {
        unimplemented!()
    }
}

impl IntoResource<()> for Own {
    fn into_resource(self) -> Resource {
        unimplemented!()
    }
}

#[derive(Clone)]
struct OwnHandler;

impl turms::SyncHandler<()> for OwnHandler {
    type Output = ();

    fn call(&self, _: &mut turms::CallParts) -> Result<(), turms::Rejection> {
        Ok(())
    }

    fn input_schema() -> Option<serde_json::Value> {
        None
    }
}

fn main() {}
