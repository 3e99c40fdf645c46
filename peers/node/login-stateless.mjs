// A client of the stateless era that logs in, on the official TypeScript SDK v2.
//
// login-stateless.mjs <url> [auto|2026-07-28|legacy]

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

import { report } from './login.mjs';

const [url, mode = 'auto'] = process.argv.slice(2);
const versionNegotiation = { mode: { auto: 'auto', legacy: 'legacy' }[mode] ?? { pin: mode } };

function open(authProvider) {
    const client = new Client({ name: 'node-login-stateless', version: '1.0.0' }, { versionNegotiation });
    return { client, transport: new StreamableHTTPClientTransport(new URL(url), { authProvider }) };
}

await report({ open, stepsUp: true });
