use turms::prelude::*;

#[derive(serde::Serialize)]
struct Sum {
    sum: f64,
}

#[tool]
fn add(a: f64, b: f64) -> Json<Sum> {
    Json(Sum { sum: a + b })
}

#[tool]
async fn try_add(a: f64, b: f64) -> Result<Json<Sum>, ToolError> {
    Ok(Json(Sum { sum: a + b }))
}

fn main() {
    let _ = Server::new("test", "1").tool(add).tool(try_add);
}
