use turms::prelude::*;

#[tool]
fn region(#[header("Region")] context: Context) {}

#[tool]
fn named(#[serde(rename = "state")] state: State<u8>) {}

#[prompt]
fn plain(#[header("Region")] region: String) -> String {
    region
}

#[tool]
fn spaced(#[header("My Region")] region: String, #[header] zone: String) {}

fn main() {}
