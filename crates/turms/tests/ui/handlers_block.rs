use turms::prelude::*;

struct Api;

#[handlers]
impl Api {
    fn unmarked(&self) {}
}

struct Other;

#[handlers]
impl Clone for Other {
    fn clone(&self) -> Self {
        Self
    }
}

fn main() {}
