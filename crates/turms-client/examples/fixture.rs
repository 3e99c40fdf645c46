//! The fixture of the behavioural suite as a program, which the suite starts and speaks to over standard input and output.

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), turms_core::Error> {
    turms_testkit::behaviour_server::server().serve_stdio().await
}
