//! The fixture of the behavioural suite as a program, which the suite starts and speaks to over standard input and output.

#[path = "../tests/fixture/mod.rs"]
mod fixture;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), turms_server::ServeError> {
    fixture::server().serve_stdio().await
}
