use turms::prelude::*;

struct Api;

impl Api {
    #[tool]
    fn add(&self, #[header("A")] a: f64, b: f64) -> f64 {
        a + b
    }
}

fn main() {}
