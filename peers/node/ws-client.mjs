// A client on the official TypeScript SDK v1, over its own WebSocket transport and the `ws` package. It calls the server at the given
// URL and prints the results as one line of JSON.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { WebSocketClientTransport } from '@modelcontextprotocol/sdk/client/websocket.js';
import { CreateMessageRequestSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { WebSocket } from 'ws';

const url = new URL(process.argv[2]);

// The transport of the SDK uses the WebSocket class of browsers, which Node.js 20 does not have. Like that class, this one delivers one
// message at a time: the SDK loses progress reports that arrive together with the response.
globalThis.WebSocket = class extends WebSocket {
    constructor(address, protocols) {
        super(address, protocols, { allowSynchronousEvents: false });
    }
};

const capabilities = { elicitation: {}, sampling: {} };
const client = new Client({ name: 'node-ws', version: '1.0.0' }, { capabilities });
client.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'accept', content: { name: 'Ann' } }));
client.setRequestHandler(CreateMessageRequestSchema, async () => ({
    role: 'assistant',
    model: 'peer',
    content: { type: 'text', text: 'Hello' }
}));
await client.connect(new WebSocketClientTransport(url));

const call = async (name, args = {}, options = undefined) => {
    const { content } = await client.callTool({ name, arguments: args }, undefined, options);
    return content[0].text;
};
const progress = [];
const long = 'a\u00e4\u{1f980}'.repeat(50_000);
const heard = {
    server: client.getServerVersion().name,
    sum: await call('add', { a: 1, b: 2 }),
    greeting: await call('greet'),
    steps: await call('steps', {}, { onprogress: ({ progress: step }) => progress.push(step) }),
    progress,
    echo: (await call('echo', { text: long })) === long
};
await client.close();
heard.stateless = await stateless();
console.log(JSON.stringify(heard));

/** Makes a stateless call without the SDK, which has no stateless revision: in fragments, over several lines, with a ping between. */
function stateless() {
    const _meta = {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientCapabilities': {}
    };
    const params = { name: 'add', arguments: { a: 3, b: 4 }, _meta };
    const text = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }, null, 4);
    return new Promise((resolve, reject) => {
        const socket = new WebSocket(url, 'mcp');
        const seen = {};
        socket.on('error', reject);
        socket.on('open', () => {
            seen.subprotocol = socket.protocol;
            socket.send(text.slice(0, 50), { fin: false });
            socket.ping('there?');
            socket.send(text.slice(50), { fin: true });
        });
        socket.on('pong', data => (seen.pong = data.toString()));
        socket.on('message', (data, isBinary) => {
            seen.binary = isBinary;
            seen.sum = JSON.parse(data).result.content[0].text;
            socket.send(Buffer.from('binary'), { binary: true });
        });
        socket.on('close', (code, reason) => resolve({ ...seen, code, reason: reason.toString() }));
    });
}
