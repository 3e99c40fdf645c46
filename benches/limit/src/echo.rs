//! Sends each request body back, with plain hyper or axum.

use std::io;

use axum::serve::ListenerExt as _;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::http::{Whole, read};

#[tokio::main]
pub(crate) async fn serve_hyper(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(Builder::new().serve_connection(TokioIo::new(stream), service_fn(echo)));
    }
}

async fn echo(request: Request<Incoming>) -> Result<Response<Whole>, hyper::Error> {
    let mut response = Response::new(Whole(Some(read(&mut request.into_body()).await?)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

#[tokio::main]
pub(crate) async fn serve_axum(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let echo = async |body: Bytes| ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body);
    let application = axum::Router::new().route("/mcp", axum::routing::post(echo));
    axum::serve(listener, application).await
}
