//! A client of any revision that writes raw lines.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use turms_core::transport::memory;
use turms_proto::{Ability, ProtocolVersion};
use turms_server::Router;
use turms_testkit::within;

pub(crate) struct Wire {
    version: ProtocolVersion,
    capabilities: Value,
    reader: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Wire {
    /// Connects, and performs the handshake if the revision has one.
    pub(crate) async fn open(router: &Router, version: ProtocolVersion, capabilities: Value) -> Self {
        let (near, far) = memory();
        let router = router.clone();
        tokio::spawn(async move { router.serve(far.0, far.1).await });
        let mut wire = Self {
            version,
            capabilities: capabilities.clone(),
            reader: BufReader::new(near.0).lines(),
            writer: near.1,
        };
        if !version.has(Ability::Stateless) {
            let client = json!({ "name": "wire", "version": "1" });
            let params =
                json!({ "protocolVersion": version.as_str(), "capabilities": capabilities, "clientInfo": client });
            let opened = wire.request("initialize", params).await;
            assert_eq!(opened["result"]["protocolVersion"], version.as_str());
            wire.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        }
        wire
    }

    pub(crate) async fn send(&mut self, line: &str) {
        self.writer.write_all(line.as_bytes()).await.unwrap();
        self.writer.write_all(b"\n").await.unwrap();
    }

    pub(crate) async fn receive(&mut self) -> Value {
        let line = within("a line of the server", self.reader.next_line()).await.unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a request with the `_meta` that the revision requires, and returns the next message.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        self.start(1, method, &params.to_string()).await;
        self.receive().await
    }

    /// Sends a request with raw parameters.
    pub(crate) async fn start(&mut self, id: u32, method: &str, params: &str) {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": self.version.as_str(),
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            "io.modelcontextprotocol/clientInfo": { "name": "wire", "version": "1" },
        });
        let members = params.strip_prefix('{').unwrap();
        let comma = if members == "}" { "" } else { "," };
        let params = match self.version.has(Ability::Stateless) {
            true => format!(r#"{{"_meta":{meta}{comma}{members}"#),
            false => params.to_owned(),
        };
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)).await;
    }
}
