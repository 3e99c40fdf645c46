//! WebSocket for the Model Context Protocol: subprotocol `mcp`, one message per text frame.
