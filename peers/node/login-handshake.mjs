// A client of the handshake era that logs in, on the official TypeScript SDK v1.
//
// login-handshake.mjs <url>

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import { report } from './login.mjs';

function open(authProvider) {
    const client = new Client({ name: 'node-login-handshake', version: '1.0.0' });
    return { client, transport: new StreamableHTTPClientTransport(new URL(process.argv[2]), { authProvider }) };
}

// If more scopes are required, this SDK uses its refresh token, which does not add scopes.
await report({ open, stepsUp: false });
